"""Conversion of texts to token ids and back, with truncation."""

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tokenizers import Tokenizer as RustTokenizer

from embedwell_models.errors import ModelError, PromptTooLongError
from embedwell_models.tokenizer.chunked import ChunkedTokenizer, max_excerpt_size
from embedwell_models.tokenizer.rust_tokenizer import panics_as_model_errors, unknown_id
from embedwell_models.tokenizer.special_tokens import (
    PairTemplate,
    SpecialTokens,
    append_text,
)
from embedwell_models.tokenizer.split_points import SplitPoints
from embedwell_models.tokenizer.steps import Steps, run_to_completion
from embedwell_models.tokenizer.tokens import (
    MAX_UNSPLIT_CHARACTERS,
    Side,
    Token,
    TruncatedIds,
    ids_of,
    tokens_of,
)

if TYPE_CHECKING:  # imported by what loads one
    from embedwell_models.tokenizer.python_tokenizers import PythonTokenizer

_CHUNK_SIZE = 1 << 16  # characters; take 0.1 s, and 40 MB if each is a token


class Tokenizer:
    """Tokenizer of a model folder, without the file's padding, truncation and dropout.

    special_tokens: the special tokens around a text. side: default side of truncation. max_id:
    highest token id.
    max_excerpt: usual number of characters of a long text that are tokenized for max_length tokens.
    """

    def __init__(  # noqa: PLR0913 - most are keyword-only
        self,
        folder: Path,
        max_length: int,
        lowercase: bool = False,
        *,
        side: Side | None = None,
        file_only: bool = False,
        keep_unknown: bool = True,
        markers: Sequence[str] = (),
        special_tokens: bool = True,
        text_after: str = "",
        compose: bool = False,
        chunk_size: int = _CHUNK_SIZE,
        max_chunk_size: int = MAX_UNSPLIT_CHARACTERS,
    ) -> None:
        """side: None for the side in the folder's files. keep_unknown: keep unknown tokens.

        file_only: ignore the files next to tokenizer.json, and add no special tokens.
        special_tokens: whether special tokens are added around a text. text_after: text that is
        added after every text as special tokens. compose: compose letters and their marks (NFC)
        before tokenization; offsets count the characters of the text as given. markers: markers of
        queries and documents, see loader.register_markers. chunk_size: number of characters that
        are tokenized at once, or up to twice as many. max_chunk_size: maximum characters of a text
        that cannot be split, at least as many as max_length tokens need.
        """
        from embedwell_models.tokenizer.loading import loader  # imports the families

        self._folder = folder
        with panics_as_model_errors(folder):
            loaded = loader.load(folder, file_only, lowercase, special_tokens, compose=compose)
            loader.register_markers(loaded.rust, markers)
            if text_after:
                append_text(loaded.rust, text_after)
            self._rust, self.side = loaded.rust, side or loaded.side
            self._special_by_role = loaded.special
            self._dropped_id = None if keep_unknown else self._unknown_id
            self.max_length = max_length
            self.model_type = type(self._rust.model).__name__
            self.vocab_size: int = self._rust.get_vocab_size()
            # Ids of added tokens may leave a gap after the other ids.
            self.max_id = max(self.vocab_size - 1, *self._rust.get_added_tokens_decoder(), 0)
            self.special_tokens = SpecialTokens.detect(self._rust)
            if max_length <= len(self.special_tokens):
                raise ModelError(f"{folder}: a length of {max_length} leaves no room for a text")
            self.max_excerpt = max_excerpt_size(max_length)
            split_points = SplitPoints(
                self._rust, max(max_chunk_size, self.max_excerpt), loaded.splits_at_spaces
            )
            self._chunked = ChunkedTokenizer(
                self._rust, self.special_tokens, split_points, chunk_size, max_length
            )
            self._max_short = min(self.max_excerpt, 2 * chunk_size)  # characters

    def encode(
        self, texts: Sequence[str], side: Side | None = None, count_limit: float = 0
    ) -> list[TruncatedIds]:
        """Return the ids of each text as a list, truncated to max_length on a side.

        count_limit: maximum number of tokens of a long text that are counted, to report the number
        of truncated tokens. Raises UnsplittableTextError.
        """
        rows = run_to_completion(self.encode_in_steps(texts, side, count_limit))
        return [TruncatedIds([*row.ids], row.dropped) for row in rows]

    def encode_in_steps(
        self, texts: Sequence[str], side: Side | None = None, count_limit: float = 0
    ) -> Steps[list[TruncatedIds]]:
        """Like `encode`, in steps, and with any sequence of ids."""
        side = side or self.side
        if max(map(len, texts), default=0) <= self._max_short:
            limit, truncate = self.max_length, self.special_tokens.truncate
            rows = [
                TruncatedIds(ids) if len(ids) <= limit else truncate(ids, limit, side)
                for ids in self._chunked.encode(texts)
            ]
        else:
            rows = yield from self._chunked.encode_truncated(texts, side, count_limit)
        return rows if self._dropped_id is None else [*map(self._without_unknown, rows)]

    def encode_with_tokens(
        self, text: str, prompt: str = "", side: Side | None = None, count_limit: float = 0
    ) -> Steps[tuple[TruncatedIds, list[Token]]]:
        """Like `encode_in_steps`, for a prompt and a text, with the token of each id."""
        row, tokens = yield from self._chunked.encode_with_tokens(
            text, prompt, side or self.side, count_limit
        )
        return self._without_unknown(row), [t for t in tokens if t.id != self._dropped_id]

    def truncate(
        self, ids: Sequence[int], side: Side | None = None, max_length: int | None = None
    ) -> TruncatedIds:
        """Truncate ids to max_length, by default the model's; keep special tokens around them."""
        return self.special_tokens.truncate(ids, max_length or self.max_length, side or self.side)

    def with_start(
        self, row: TruncatedIds, start: Sequence[int], side: Side, max_length: int | None = None
    ) -> TruncatedIds:
        """Return a row that starts with ids that are never truncated, such as a template's start.

        side, max_length: the arguments of the row's truncation. Raises PromptTooLongError if the
        ids leave no room for a text.
        """
        limit = max_length or self.max_length
        if not row.dropped or not start:
            return row
        if len(start) + len(self.special_tokens) >= limit:
            raise PromptTooLongError(limit)
        if side == "right":
            return row
        return replace(row, ids=[*start, *row.ids[len(start) :]])

    def strip(self, row: TruncatedIds) -> Sequence[int]:
        """Return the ids of a text without the special tokens around them."""
        return self.special_tokens.strip(row.ids)

    def strip_ids(self, ids: list[int]) -> list[int]:
        """Return ids without special tokens at the start and end, if there are any."""
        before, after = self.special_tokens.count_around(ids)
        return ids[before : len(ids) - after]

    def token_id(self, token: str) -> int | None:
        """Return the id of a token; None for an unknown token."""
        id: int | None = self._rust.token_to_id(token)
        return id

    def special_id(self, role: str) -> int | None:
        """Return the id of the special token of a role (cls, mask, …); None if there is none."""
        token = self._special_by_role.get(role)
        return None if token is None else self.token_id(token)

    def pair_template(self, segment_offset: int) -> PairTemplate:
        """Return the special tokens and segments of a pair of texts, see PairTemplate.detect."""
        with panics_as_model_errors(self._folder):
            return PairTemplate.detect(self._rust, segment_offset)

    def ids_without_special(self, text: str, limit: float = math.inf) -> Steps[Sequence[int]]:
        """Return all ids of a text, in steps, without special tokens and without truncation.

        Stops after more than `limit` ids. Raises UnsplittableTextError.
        """
        ids = array("i")
        for span in self._chunked.spans(text):
            chunk = self.special_tokens.strip(self._chunked.chunk_ids(text, span))
            ids.extend(id for id in chunk if id != self._dropped_id)
            if len(ids) > limit:
                break
            yield
        return ids

    def count_tokens(self, text: str) -> Steps[int]:
        """Count the ids that `encode` would return without truncation, in steps."""
        ids = yield from self.ids_without_special(text)
        return len(self.special_tokens) + len(ids)

    def prompt_length(self, prompt: str) -> int:
        """Count the tokens of a prompt as sentence-transformers does.

        These are the tokens of the prompt without a text, with special tokens before it but not
        after it.
        """
        ids = self.encode([prompt])[0].ids
        added = self._rust.get_added_tokens_decoder()
        return len(ids) - any(id in added and added[id].special for id in ids[-1:])

    def tokens(self, text: str, prompt: str = "", special: bool = True) -> list[Token]:
        """Return all tokens of a prompt and a text; raises UnsplittableTextError."""
        return list(chain.from_iterable(self.token_chunks(text, prompt, special)))

    def token_chunks(
        self, text: str, prompt: str = "", special: bool = True
    ) -> Iterator[list[Token]]:
        """Yield the tokens of a prompt and a text, chunk by chunk."""
        extract = partial(tokens_of, text=text)
        for chunk in self._chunked.token_chunks(prompt + text, extract, -len(prompt), special):
            yield [token for token in chunk if token.id != self._dropped_id]

    def id_chunks(
        self, text: str, prompt: str = "", special: bool = True
    ) -> Iterator[list[tuple[int, bool]]]:
        """Like `token_chunks`, but yield only ids, each with whether its token is outside the text.

        Much faster than `token_chunks`.
        """
        for chunk in self._chunked.token_chunks(prompt + text, ids_of, -len(prompt), special):
            yield [(id, outside) for id, outside in chunk if id != self._dropped_id]

    @property
    def looks_up_words(self) -> bool:
        """Whether the model is a table of words, which have no context."""
        return self._in_python is not None and self._in_python.looks_up_words

    @property
    def word_count(self) -> int:
        """Number of tokens of tokenizer.json without the added ones; 0 for other tokenizers."""
        return 0 if self._in_python else self._rust.get_vocab_size(False)

    def in_vocabulary(self, id: int) -> bool:
        """Whether a token is in the vocabulary; unknown words and their n-grams are not."""
        return self._in_python.in_vocabulary(id) if self._in_python else id != self._unknown_id

    @property
    def _in_python(self) -> "PythonTokenizer | None":
        rust: object = self._rust
        return None if isinstance(rust, RustTokenizer) else cast("PythonTokenizer", rust)

    @cached_property
    def _unknown_id(self) -> int | None:
        return unknown_id(self._rust)

    def name(self, id: int) -> str:
        """Return the name of a token; raises KeyError for an unknown id."""
        name: str | None = self._rust.id_to_token(id)
        if name is None:
            raise KeyError(id)
        return name

    def decode(self, ids: Sequence[Sequence[int]], skip_special: bool = True) -> list[str]:
        """Return the text of each row of ids."""
        return self._rust.decode_batch([list(row) for row in ids], skip_special_tokens=skip_special)

    def _without_unknown(self, row: TruncatedIds) -> TruncatedIds:
        if self._dropped_id not in row.ids:
            return row
        return TruncatedIds([id for id in row.ids if id != self._dropped_id], row.dropped)
