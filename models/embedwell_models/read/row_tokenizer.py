"""Tokenize inputs, and truncate, reject or split those that are too long."""

import math
import sys
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard, TypeVar

import numpy as np

from embedwell_models.errors import (
    EmptyTextError,
    InputError,
    PromptTooLongError,
    TooLongError,
    UnsplittableTextError,
)
from embedwell_models.model_files.vector_recipe import VectorRecipe
from embedwell_models.read.inputs import (
    InputOptions,
    InputRow,
    PreparedInput,
    TextOrIds,
    check_tokens,
)
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side, Token, TruncatedIds

if TYPE_CHECKING:  # imported for late chunking and windows
    from embedwell_models.read.chunks import ChunkedDocument
    from embedwell_models.read.windows import WindowSplitter

R = TypeVar("R")

TextOrImage = TextOrIds | PreparedInput
"""A text, token ids, or an image or a text with images, whose pixels are prepared."""


class RowTokenizer:
    """Tokenizes inputs in steps, as texts may be long; independent of requests.

    max_length: maximum tokens of a text.
    """

    def __init__(  # noqa: PLR0913 - all but two by name
        self,
        tokenizer: Tokenizer,
        recipe: VectorRecipe,
        *,
        vocabulary_rows: int,
        min_tokens: int,
        max_tokens: int,
        auto_truncate: bool,
        raw_token_ids: bool,
    ) -> None:
        """vocabulary_rows: rows of the model's embedding table.

        min_tokens: minimum tokens of a text.
        max_tokens: maximum tokens of a request.
        auto_truncate: whether to truncate inputs unless the options decide.
        raw_token_ids: whether to accept token ids without special tokens.
        """
        self._tokenizer, self._recipe, self._min_tokens = tokenizer, recipe, min_tokens
        self.max_length = tokenizer.max_length
        self._last_id = min(tokenizer.max_id, vocabulary_rows - 1)
        self._ids_beyond_table = tokenizer.max_id > self._last_id
        self._segment_offset = 0
        self._max_tokens, self._auto_truncate = max_tokens, auto_truncate
        self._raw_token_ids = raw_token_ids

    def read(
        self, inputs: Sequence[TextOrImage], prompt: str, options: InputOptions, first_index: int
    ) -> Steps[list[InputRow]]:
        """Tokenize inputs; raises InputError.

        first_index: index of the first input in the request.
        """
        (texts, indices), side = _prompted(inputs, prompt), options.side or self._tokenizer.side
        try:
            has_prompt = bool(prompt and texts)
            count = self._recipe.prompt_token_count(prompt, self._tokenizer) if has_prompt else 0
            limit = self.max_counted_tokens(options, count)
            encoded = yield from self._tokenizer.encode_in_steps(texts, side, limit)
            start = (yield from self._template_start(prompt)) if has_prompt else ()
        except UnsplittableTextError as error:
            raise error.with_index(first_index + indices[error.index or 0]) from None
        changes = start or count or options.windows or options.max_length is not None
        if _are_texts(inputs) and not changes:  # the usual case
            indexed = enumerate(encoded, first_index)
            return [self.checked_row(index, ids, options) for index, ids in indexed]
        rows, text_ids = list[InputRow](), iter(encoded)
        for index, item in enumerate(inputs, first_index):
            if isinstance(item, str):
                ids = next(text_ids)
                if ids.dropped and options.windows:
                    rows.append((yield from self._split_windows(index, item, prompt, count)))
                else:
                    rows.append(self._text_row(index, ids, options, side, start, count))
            elif isinstance(item, list):
                ids = self._token_ids(index, item, side)
                if ids.dropped and options.windows:
                    rows.append(self._windows.split_ids(item, index))
                    continue
                rows.append(self._text_row(index, ids, options, side, (), 0))
            elif item.text is None:
                rows.append(item.row(None, index))
            else:
                prompted = (start, count) if item.takes_prompt else ((), count)
                row = self._text_row(index, next(text_ids), options, side, *prompted)
                rows.append(item.row(row, index))
        return rows

    def _text_row(  # noqa: PLR0913, PLR0917 - of one call
        self,
        index: int,
        ids: TruncatedIds,
        options: InputOptions,
        side: Side,
        start: Sequence[int],
        prompt_token_count: int,
    ) -> InputRow:
        """Return a row that is cut to the maximum length of the options, and checked.

        start: ids that are never cut off. prompt_token_count: leading ids that are not pooled.
        """
        if options.max_length is not None:
            ids = self._cut(ids, side, options.max_length, prompt_token_count)
        if start:
            ids = self._tokenizer.with_start(ids, start, side, options.max_length)
        remaining = ids.remaining(prompt_token_count, side) if prompt_token_count else 0
        return self.checked_row(index, ids, options, remaining)

    def for_pairs(self, segment_offset: int) -> "RowTokenizer":
        """Return a tokenizer that checks rows of pairs, see RequestReader."""
        tokenizer = copy(self)
        tokenizer._segment_offset = segment_offset
        return tokenizer

    def read_ids(self, texts: Sequence[str], prompt: str) -> Steps[list[list[int]]]:
        """Tokenize texts, which are cut to the maximum length; raises UnsplittableTextError."""
        rows = yield from self._tokenizer.encode_in_steps([prompt + text for text in texts])
        start = yield from self._template_start(prompt)
        if start:
            side = self._tokenizer.side
            rows = [self._tokenizer.with_start(row, start, side) for row in rows]
        return [[*row.ids] for row in rows]

    def read_partial(
        self, inputs: Sequence[TextOrImage], prompt: str, options: InputOptions, first_index: int
    ) -> Steps[list[InputRow | InputError]]:
        """Like `read`, but returns an error for each invalid input."""
        try:
            return [*(yield from self.read(inputs, prompt, options, first_index))]
        except InputError as error:
            if len(inputs) == 1:
                return [error]
        results: list[InputRow | InputError] = []
        for index, item in enumerate(inputs, first_index):
            results += yield from self.read_partial([item], prompt, options, index)
        return results

    def read_with_tokens(
        self, texts: Sequence[str], prompt: str, options: InputOptions, first_index: int
    ) -> Steps[list[tuple[InputRow, list[Token]]]]:
        """Like `read` for texts, with the tokens of each row."""
        results, count_limit = [], self.max_counted_tokens(options)
        side = options.side or self._tokenizer.side
        for index, text in enumerate(texts, first_index):
            try:
                ids, tokens = yield from self._encode_with_tokens(text, prompt, side, count_limit)
            except UnsplittableTextError as error:
                raise error.with_index(index) from None
            results.append((self.checked_row(index, ids, options), tokens))
        return results

    def _encode_with_tokens(
        self, text: str, prompt: str, side: Side, count_limit: float
    ) -> Steps[tuple[TruncatedIds, list[Token]]]:
        row, tokens = yield from self._tokenizer.encode_with_tokens(text, prompt, side, count_limit)
        start = yield from self._template_start(prompt)
        restored = self._tokenizer.with_start(row, start, side)
        if restored is not row:
            outside = [Token(id, self._tokenizer.name(id), False, None, None) for id in start]
            tokens = [*outside, *tokens[len(start) :]]
        return restored, tokens

    def read_chunks(
        self, chunks: Sequence[str], prompt: str, options: InputOptions
    ) -> "Steps[ChunkedDocument]":
        """Tokenize consecutive chunks of a text as one row; raises InputError."""
        if self._tokenizer.looks_up_words:
            raise InputError(
                "a table of word vectors has no context, so chunks are not supported: send "
                "each chunk as an input",
                code="not_offered",
            )
        from embedwell_models.read.chunks import ChunkReader

        side = options.side or self._tokenizer.side if self._may_cut(options.truncate) else None
        document = yield from ChunkReader(self._tokenizer).read(chunks, prompt, side)
        if self._ids_beyond_table:
            for index, row in enumerate(document.chunk_inputs()):
                self._check_ids_in_table(row, index)
            self._check_ids_in_table(document.row, 0)  # ids of the prompt and the special tokens
        return document

    def all_tokens(
        self,
        texts: Sequence[str],
        prompt: str,
        special: bool,
        describe: Callable[[str, list[Token]], R],
    ) -> Steps[list[R]]:
        """Return what `describe` returns for each text with its prompt, and all of its tokens.

        special: whether special tokens are added. Raises InputError.
        """
        total, results = 0, []
        for index, text in enumerate(texts):
            prompted, tokens = prompt + text, list[Token]()
            try:
                for chunk in self._tokenizer.token_chunks(prompted, special=special):
                    tokens += chunk
                    total += len(chunk)
                    check_tokens(total, self._max_tokens)
                    yield
            except UnsplittableTextError as error:
                raise error.with_index(index) from None
            results.append(describe(prompted, tokens))
        return results

    def max_characters(self, options: InputOptions) -> int:
        """Estimate how many characters of a text are tokenized at most, for the queue."""
        unlimited = options.windows or self.max_counted_tokens(options)
        return sys.maxsize if unlimited else self._tokenizer.max_excerpt

    def check_ids(self, ids: Sequence[int], index: int) -> None:
        """Raise InputError for a token id that is not in the vocabulary or the embedding table."""
        unknown = next((id for id in ids if not 0 <= id <= self._last_id), None)
        if unknown is not None:
            raise InputError(
                f"token id {unknown} is not in the model's vocabulary (0 to {self._last_id})",
                code="unknown_token",
                index=index,
            )

    def _template_start(self, prompt: str) -> Steps[Sequence[int]]:
        # The ids of a chat template before a text are never cut off.
        if self._recipe.text_format is None:
            return ()
        return (yield from self._tokenizer.ids_without_special(prompt))

    def _cut(
        self, ids: TruncatedIds, side: Side, max_length: int, prompt_token_count: int
    ) -> TruncatedIds:
        """Cut ids to a maximum length below the model's.

        prompt_token_count: leading ids that are not pooled.
        """
        end = len(self._tokenizer.special_tokens.suffix)
        if prompt_token_count + end >= max_length and side == "right":
            raise PromptTooLongError(max_length)
        cut = self._tokenizer.truncate(ids.ids, side, max_length)
        return TruncatedIds(cut.ids, ids.dropped + cut.dropped)

    def max_counted_tokens(self, options: InputOptions, prompt_token_count: int = 0) -> float:
        """Return up to how many tokens of a long text to count, to report how many are cut off."""
        if options.windows:
            return 0
        if not self._may_cut(options.truncate):  # the error reports the text's length
            return self._max_tokens
        if options.count_dropped:
            return math.inf
        if prompt_token_count and (options.side or self._tokenizer.side) == "left":
            return self.max_length + prompt_token_count  # to know how many of them remain
        return 0

    @property
    def _windows(self) -> "WindowSplitter":
        from embedwell_models.read.windows import WindowSplitter

        return WindowSplitter(self._tokenizer, self._max_tokens)

    def _split_windows(
        self, index: int, text: str, prompt: str, prompt_token_count: int
    ) -> Steps[InputRow]:
        try:
            row = yield from self._windows.split_text(text, prompt, index)
        except UnsplittableTextError as error:
            raise error.with_index(index) from None
        return self._check_ids_in_table(replace(row, prompt_token_count=prompt_token_count), index)

    def _token_ids(self, index: int, ids: list[int], side: Side) -> TruncatedIds:
        # Ids are not changed, because they include the special tokens.
        if not ids:
            raise InputError(
                "an input has an empty list of token ids", code="no_input", index=index
            )
        self.check_ids(ids, index)
        if not (self._raw_token_ids or self._tokenizer.special_tokens.surround(ids)):
            raise InputError(
                f"input {index} has token ids without the model's special tokens "
                f"({self._special_names()}), as ids of another tokenizer do: send texts "
                "(LangChain: check_embedding_ctx_length=False), or add these tokens",
                code="no_special_tokens",
                index=index,
            )
        return self._tokenizer.truncate(ids, side)

    def _special_names(self) -> str:
        special = self._tokenizer.special_tokens
        names = [*map(self._tokenizer.name, special.prefix), "…"]
        return " ".join([*names, *map(self._tokenizer.name, special.suffix)])

    def checked_row(
        self, index: int, row: TruncatedIds, options: InputOptions, prompt_token_count: int = 0
    ) -> InputRow:
        """Return an input whose length and ids are checked; raises InputError."""
        if row.dropped:
            self.check_cut(index, row, options)
        if len(row.ids) < self._min_tokens:
            raise EmptyTextError(index)
        checked = InputRow(np.asarray(row.ids, dtype=np.int32), row.dropped, prompt_token_count)
        return self._check_ids_in_table(checked, index) if self._ids_beyond_table else checked

    def check_cut(self, index: int, row: TruncatedIds, options: InputOptions) -> None:
        """Raise InputError for an input that is cut off although it must not be."""
        if row.dropped and not self._may_cut(options.truncate):
            # Not len(row.ids), which lacks the unknown tokens that some models drop.
            limit = options.max_length or self._tokenizer.max_length
            raise self._too_long(index, limit + row.dropped, limit)

    def _too_long(self, index: int, tokens: int, limit: int) -> TooLongError:
        counted = self._max_tokens
        length = f"{tokens} tokens" if tokens <= counted else f"more than {counted} tokens"
        return TooLongError(
            # Clients search for OpenAI's wording.
            f"This model's maximum context length is {limit} tokens, however you requested "
            f"{length} in input {index}; shorten it",
            index,
        )

    def _check_ids_in_table(self, row: InputRow, index: int) -> InputRow:
        # The tokenizers of a few broken models have more ids than the embedding table has rows.
        if not self._ids_beyond_table:
            return row
        ids = row.ids - self._segment_offset
        if (unknown := ids[ids > self._last_id]).size:
            raise InputError(
                f"input {index}: the token {self._tokenizer.name(unknown[0])!r} has id "
                f"{unknown[0]}, but the model's table ends at {self._last_id}",
                code="unknown_token",
                index=index,
            )
        return row

    def _may_cut(self, truncate: bool | None) -> bool:
        return self._auto_truncate if truncate is None else truncate


def _are_texts(inputs: Sequence[TextOrImage]) -> TypeGuard[Sequence[str]]:
    return {*map(type, inputs)} <= {str}


def _prompted(inputs: Sequence[TextOrImage], prompt: str) -> tuple[list[str], Sequence[int]]:
    """Return the texts among inputs, each after the prompt, and their positions."""
    if _are_texts(inputs):
        return [prompt + text for text in inputs], range(len(inputs))
    texts, positions = list[str](), list[int]()
    for position, item in enumerate(inputs):
        if isinstance(item, str):
            texts.append(prompt + item)
        elif isinstance(item, list) or item.text is None:
            continue
        else:
            texts.append(prompt + item.text if item.takes_prompt else item.text)
        positions.append(position)
    return texts, positions
