"""Tokenization of a text from cached ids of its pieces between spaces.

Many tokenizers end a token at a single space, whatever the rest of the text is: the ids of a text
are the concatenated ids of its pieces. Looking up cached pieces is ten times faster than tokenizing
the text. Only new pieces are tokenized. A text with a piece that may depend on its neighbours is
tokenized as a whole.
"""

import re
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from embedwell_models.tokenizer.rust_tokenizer import part_options, without_panic
from embedwell_models.tokenizer.split_points import BYTE_PATTERNS

_SINGLE = r"!-/:-@\[-`{-~一-鿿"  # characters that are always words of BERT
# BERT may split such a word further; the cache has the ids that it returns.
_BERT_WORDS = re.compile(rf"[^\t\n\r {_SINGLE}]+|[{_SINGLE}]")
_BERT = {"BertNormalizer", "BertPreTokenizer"}
_SAMPLE = "Of the well-known license: 2 Cafés,\n(ÅNGSTRÖM's)  東京 \t😀\u200d. The 1st"
_MAX_CACHED = 24  # characters of a cached piece
_MAX_PIECE = 256  # characters; a text with a longer one, such as Chinese, has few spaces
_MAX_PIECES = 1 << 16  # pieces in the cache: 9 MB of English, at most 30 MB
_MAX_TEXT = 20_000  # characters; the look-up blocks other Python threads
_JOINED = "\u0d4e\u0e33\u0eb3\uff9e\uff9f▁"  # letters that join a space, and the sign for one


@dataclass(frozen=True)
class Pieces:
    """The pieces of a text that a tokenizer reads independently.

    is_local: whether a piece does not depend on the pieces around it. has_space: whether the space
    before a piece belongs to it. words: finds independent parts of a piece.
    """

    is_local: Callable[[str], bool]
    has_space: bool = False
    words: Callable[[str], list[str]] | None = None

    def split(self, text: str) -> list[str]:
        """Split a text at spaces; if pieces have their space, mark the first, which has none.

        A text that must not be looked up is a single piece, longer than any of the cache.
        """
        pieces = text.split(" ") if len(text) <= _MAX_TEXT else [text]
        if self.has_space:
            pieces[0] = " " + pieces[0]
        return pieces

    def text_of(self, piece: str) -> str:
        """Return what to tokenize for a piece."""
        if not self.has_space:
            return piece
        return piece[1:] if piece.startswith(" ") else " " + piece


class UncachedTokenizer:
    """Tokenizer that tokenizes each text directly."""

    def __init__(self, rust: Tokenizer) -> None:
        self._rust = rust

    def encode(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """Return the ids of each text; raises TokenizerPanicError."""
        try:
            encodings = self._rust.encode_batch_fast(list(texts))
            return [array("i", encoding.ids) for encoding in encodings]
        except BaseException as error:
            raise without_panic(error) from None


class CachingTokenizer:
    """Tokenizer that looks the pieces of texts up, and tokenizes only new ones."""

    def __init__(
        self,
        rust: Tokenizer,
        prefix: Sequence[int],
        suffix: Sequence[int],
        pieces: Pieces,
        max_pieces: int = _MAX_PIECES,
    ) -> None:
        """prefix, suffix: ids of special tokens around a text. max_pieces: pieces in the cache."""
        self._rust, self._uncached, self._pieces = rust, UncachedTokenizer(rust), pieces
        self._max_pieces = max_pieces
        self._prefix, self._suffix = (array("i", ids).tobytes() for ids in (prefix, suffix))
        self.cache: dict[str, bytes] = {}  # piece or word -> ids as int32

    def encode(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """Return the ids of each text; raises TokenizerPanicError."""
        cached, split = self.cache.__getitem__, self._pieces.split
        rows, new = list[Sequence[int]](), list[int]()
        for index, text in enumerate(texts):
            try:
                rows.append(self._join(map(cached, split(text))))
            except KeyError:
                rows.append(array("i"))
                new.append(index)
        if new:
            try:
                encoded = self._encode_new([texts[index] for index in new])
            except BaseException as error:
                raise without_panic(error) from None
            for index, row in zip(new, encoded, strict=True):
                rows[index] = row
        return rows

    def _join(self, pieces: Iterable[bytes]) -> Sequence[int]:
        return array("i", b"".join([self._prefix, *pieces, self._suffix]))

    def _encode_new(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """Tokenize texts, and add their new pieces to the cache."""
        # A full cache is replaced and not cleared, because other threads may still read it.
        cache = self.cache if len(self.cache) < self._max_pieces else {}
        rows = [self._local_pieces(text, cache) for text in texts]
        whole = [text for text, pieces in zip(texts, rows, strict=True) if not pieces]
        encoded = iter(self._uncached.encode(whole) if whole else ())
        new = self._new_ids(chain.from_iterable(rows), cache)
        room = max(self._max_pieces - len(cache), 0)  # other threads add to it
        cache.update(islice(((p, ids) for p, ids in new.items() if len(p) <= _MAX_CACHED), room))
        self.cache = cache
        return [
            self._join([new[p] if p in new else cache[p] for p in pieces])
            if pieces
            else next(encoded)
            for pieces in rows
        ]

    def _local_pieces(self, text: str, cache: Mapping[str, bytes]) -> list[str]:
        """Return the pieces of a text; none if it has to be tokenized as a whole."""
        if len(text) > _MAX_TEXT:
            return []
        pieces = self._pieces.split(text)
        new = {*pieces}.difference(cache)
        return pieces if all(map(self._pieces.is_local, new)) else []

    def _new_ids(self, pieces: Iterable[str], cache: Mapping[str, bytes]) -> dict[str, bytes]:
        """Tokenize those pieces that are not in the cache."""
        new, words = sorted({*pieces}.difference(cache)), self._pieces.words
        if words is None:
            return self._tokenize(new)
        split = {piece: words(piece) for piece in new}
        every = {*chain.from_iterable(split.values())}
        ids = self._tokenize(sorted(every.difference(cache)))
        known = {word: ids[word] if word in ids else cache[word] for word in every}
        for piece, parts in split.items():
            ids[piece] = b"".join(map(known.__getitem__, parts))
        return ids

    def _tokenize(self, pieces: list[str]) -> dict[str, bytes]:
        if not pieces:
            return {}
        texts = [*map(self._pieces.text_of, pieces)]
        # As one text, because each text costs as much as some words.
        encode = self._rust.encode_batch
        (encoding,) = encode([texts], is_pretokenized=True, add_special_tokens=False)
        counts = np.bincount(np.array(encoding.word_ids, dtype=np.intp), minlength=len(pieces))
        ids, stops = array("i", encoding.ids).tobytes(), (4 * counts.cumsum()).tolist()
        return {
            piece: ids[start:stop]
            for piece, (start, stop) in zip(pieces, pairwise([0, *stops]), strict=True)
        }


def fastest_tokenizer(
    rust: Tokenizer, prefix: Sequence[int], suffix: Sequence[int]
) -> UncachedTokenizer | CachingTokenizer:
    """Return a caching tokenizer if it certainly returns the same ids, else an uncached one.

    Raises TokenizerPanicError for a tokenizer that cannot read a short sample.

    prefix, suffix: ids of the special tokens around a text.
    """
    uncached, pieces = UncachedTokenizer(rust), pieces_of(rust)
    # An added token in the whole sample would hide the other pieces.
    samples = [_SAMPLE, " ".join(_SAMPLE.split()), *map("".join, pairwise(_SAMPLE))]
    expected = uncached.encode(samples)
    if pieces is None:
        return uncached
    caching = CachingTokenizer(rust, prefix, suffix, pieces)
    # The second time, the pieces are in the cache.
    return caching if caching.encode(samples * 2) == expected * 2 else uncached


def pieces_of(rust: Tokenizer) -> Pieces | None:
    """Return the pieces that a tokenizer reads independently; None if that is not known."""
    normalize = str if rust.normalizer is None else rust.normalizer.normalize_str
    added = rust.get_added_tokens_decoder().values()
    names = {name for token in added for name in (token.content, normalize(token.content))}
    contains_added = re.compile("|".join(map(re.escape, names)) or "(?!)").search  # nothing
    normalizers, splits = part_options(rust.normalizer), part_options(rust.pre_tokenizer)
    if _reads_words_of_bert([*normalizers, *splits]):
        # Normalized tokens are matched in the normalized text.
        if any(token.normalized or " " in token.content for token in added):
            return None
        return Pieces(lambda piece: not contains_added(piece), words=_BERT_WORDS.findall)
    has_space = _splits_bytes(splits) and {each["type"] for each in normalizers} <= {"NFC", "NFKC"}
    if not has_space and not (_splits_at_signs(splits) and all(map(_is_local_step, normalizers))):
        return None
    if any(name.strip(" ") and " " in name for name in names):
        return None

    def is_local(piece: str) -> bool:
        text = piece.removeprefix(" ")
        normalized = normalize(text)
        if not normalized or len(text) > _MAX_PIECE:
            return False
        ends = text[0], text[-1], normalized[0], normalized[-1]
        return not (any(map(_may_join_space, ends)) or contains_added(f"{text}\0{normalized}"))

    return Pieces(is_local, has_space)


def _reads_words_of_bert(steps: Sequence[Mapping[str, Any]]) -> bool:
    types = {step["type"] for step in steps}
    # Otherwise Chinese characters are parts of words.
    chinese = all(step.get("handle_chinese_chars", True) for step in steps)
    return chinese and _BERT <= types <= _BERT | {"Lowercase"}


def _splits_bytes(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether these are the steps of byte-level BPE with a pattern that ends a word at a space."""
    match steps:
        case [{"type": "ByteLevel", "use_regex": True}]:
            return True
        case [{"type": "Split"} as split, {"type": "ByteLevel", "use_regex": False}]:
            isolated = split["behavior"] == "Isolated" and not split["invert"]
            return isolated and split["pattern"].get("Regex") in BYTE_PATTERNS
    return False


def _splits_at_signs(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Whether these are the steps of SentencePiece, which puts a sign before each word."""
    match steps:
        case [
            *before,
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        ]:
            return all(step["type"] == "WhitespaceSplit" for step in before)
    return False


def _is_local_step(normalizer: Mapping[str, Any]) -> bool:
    spaces = normalizer.get("pattern") in ({"Regex": " {2,}"}, {"Regex": r"\s+"})
    return normalizer["type"] in {"NFC", "NFKC", "Nmt", "Precompiled"} or (
        normalizer["type"] == "Replace" and spaces and normalizer["content"] == " "
    )


def _may_join_space(character: str) -> bool:
    """Whether a character may be normalized together with a space next to it, or be removed."""
    category = unicodedata.category(character)
    astral = character > "\uffff" and category != "So"
    return astral or category[0] in "MCZ" or character in _JOINED
