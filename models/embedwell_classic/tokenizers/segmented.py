"""Tokenizers of transformers that split words in Python, with a vocab.txt: Japanese, PhoBERT."""

import importlib
import re
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import (
    NormalizedString,
    PreTokenizedString,
    Regex,
    Tokenizer,
    decoders,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers.models import BPE, WordLevel, WordPiece

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading.tokenizer_kind import CODES, VOCABULARY

_BLOCK = 256  # pieces; for each cut, the library counts characters from the start
_REQUIREMENTS = "fugashi unidic-lite ipadic"
_DICTIONARIES = ("unidic_lite", "ipadic")
_NOT_SPACE = re.compile(r"\S+")
_WORD_AND_LINE_END = re.compile(r"\S+\n?")  # with the line end, as in PhobertTokenizer
_WORD_END, _CONTINUES = "</w>", "@@"
_MAX_CACHED = 1 << 15  # words
_MAX_CACHED_LENGTH = 32  # characters of a word


class Piece(NamedTuple):
    """A part of a text, in characters. suffix: appended for the look-up in the vocabulary."""

    start: int
    stop: int
    suffix: str = ""


class PythonPreTokenizer(ABC):
    """Pre-tokenizer that splits a text into pieces; the text between pieces is left out.

    lowercase: whether pieces are lowercased after the split.
    """

    lowercase = False

    @abstractmethod
    def pieces(self, text: str) -> Sequence[Piece]:
        """Return the pieces of a normalized text in order; no piece is empty."""

    def pre_tokenize(self, text: PreTokenizedString) -> None:
        """Split a text; the library calls this."""
        blocks: deque[list[Piece]] = deque()

        def into_blocks(_: int, part: NormalizedString) -> list[NormalizedString]:
            pieces, parts = self.pieces(str(part)), []
            for first in range(0, len(pieces), _BLOCK):
                block = pieces[first : first + _BLOCK]
                start = block[0].start
                blocks.append([Piece(p.start - start, p.stop - start, p.suffix) for p in block])
                parts.append(_slice(part, start, block[-1].stop))
            return parts

        def into_pieces(_: int, part: NormalizedString) -> list[NormalizedString]:
            return [self._cut(part, piece) for piece in blocks.popleft()]

        text.split(into_blocks)
        text.split(into_pieces)

    def _cut(self, part: NormalizedString, piece: Piece) -> NormalizedString:
        cut = _slice(part, piece.start, piece.stop)
        if self.lowercase:
            cut.lowercase()
        if piece.suffix:
            cut.append(piece.suffix)
        return cut


def _slice(part: NormalizedString, start: int, stop: int) -> NormalizedString:
    cut = part[start:stop]
    assert cut is not None, "a piece is inside of its text"
    return cut


class MecabSplitter(PythonPreTokenizer):
    """Splits a text into the words that MeCab finds with a dictionary, or into their characters.

    Kudo et al. 2004.
    """

    def __init__(self, dictionary: str, *, characters: bool, lowercase: bool) -> None:
        """dictionary: the module that has it. Raises ModelError if it is not installed."""
        fugashi, folder = _import_package("fugashi"), Path(_import_package(dictionary).DICDIR)
        self._tagger = fugashi.GenericTagger(f'-d "{folder}" -r "{folder / "mecabrc"}"')
        self._characters, self.lowercase = characters, lowercase
        self._lock = threading.Lock()  # the words of a text are valid until the next one

    def pieces(self, text: str) -> list[Piece]:
        """Return the words without white space, or the characters of the words."""
        spans = self._words(text)
        if self._characters:
            return [Piece(i, i + 1) for start, stop in spans for i in range(start, stop)]
        return [
            Piece(start + part.start(), start + part.end())
            for start, stop in spans
            for part in _NOT_SPACE.finditer(text[start:stop])
        ]

    def _words(self, text: str) -> Iterator[tuple[int, int]]:
        with self._lock:
            words = [node.surface for node in self._tagger(text)]
        stop = 0
        for word in words:
            start = text.index(word, stop)
            stop = start + len(word)
            yield start, stop


def read_japanese(folder: Path, special: Mapping[str, str]) -> Tokenizer:
    """Read a BertJapaneseTokenizer with MeCab.

    Words become WordPiece or characters. Raises ModelError for an option that is not supported, and
    without the packages that it needs.
    """
    options = JsonConfig(folder / "tokenizer_config.json")
    options.require("word_tokenizer_type", "mecab")
    for key in ("do_word_tokenize", "do_subword_tokenize"):
        options.require(key, True)
    options.require("never_split", None, [])
    mecab = options.nested_only("mecab_kwargs", ("mecab_dic", "mecab_option", "normalize_text"))
    mecab.require("mecab_option", None, "")
    mecab.require("normalize_text", True)
    characters = options.require("subword_tokenizer_type", "wordpiece", "character") == "character"
    splitter = MecabSplitter(
        mecab.require("mecab_dic", *_DICTIONARIES),
        characters=characters,
        lowercase=options.get("do_lower_case", False),
    )
    unknown, ids = special["unk"], _japanese_vocabulary(folder / VOCABULARY)
    rust = Tokenizer(
        WordLevel(ids, unk_token=unknown) if characters else WordPiece(ids, unk_token=unknown)
    )
    rust.normalizer = normalizers.NFKC()
    rust.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(splitter)
    rust.decoder = decoders.WordPiece(cleanup=False)
    rust.add_special_tokens(list(special.values()))
    cls, sep = special["cls"], special["sep"]
    rust.post_processor = processors.TemplateProcessing(
        single=[cls, "$A", sep],
        pair=[f"{cls}:0", "$A:0", f"{sep}:0", "$B:1", f"{sep}:1"],
        special_tokens=[(token, rust.token_to_id(token)) for token in (cls, sep)],
    )
    return rust


def _japanese_vocabulary(path: Path) -> dict[str, int]:
    try:
        with path.open(encoding="utf-8") as lines:
            return {line.rstrip("\n"): id for id, line in enumerate(lines)}
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from None


def _import_package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise ModelError(
            f"the model's tokenizer needs {name}: pip install {_REQUIREMENTS}"
        ) from None


class BpeSplitter(PythonPreTokenizer):
    """Splitter of words by the merges of a BPE; all pieces of a word but the last get a suffix."""

    def __init__(self, merges: Sequence[tuple[str, str]]) -> None:
        """merges: pairs of symbols in the order of their ranks."""
        symbols = dict.fromkeys(part for a, b in merges for part in (a, b, a + b))
        vocabulary = {symbol: id for id, symbol in enumerate(["", *symbols])}
        self._bpe = BPE(vocabulary, list(merges), unk_token="", end_of_word_suffix=_WORD_END)
        self._cache: dict[str, list[Piece]] = {}

    def pieces(self, text: str) -> list[Piece]:
        """Split a text into words at white space, and each word by the merges."""
        return [
            Piece(word.start() + start, word.start() + stop, suffix)
            for word in _WORD_AND_LINE_END.finditer(text)
            for start, stop, suffix in self._cache.get(word[0]) or self._split(word[0])
        ]

    def _split(self, word: str) -> list[Piece]:
        encoded, stops = word.encode(), [0]
        for token in self._bpe.tokenize(word):
            start, stop = token.offsets  # in bytes
            stops.append(stops[-1] + len(encoded[start:stop].decode()))
        spans = list(pairwise(stops))
        pieces = [Piece(*span, _CONTINUES if span[1] < len(word) else "") for span in spans]
        if len(word) <= _MAX_CACHED_LENGTH:
            # A full cache is replaced and not cleared, because other threads may read it.
            cache = self._cache if len(self._cache) < _MAX_CACHED else {}
            cache[word] = pieces
            self._cache = cache
        return pieces


def read_phobert(folder: Path, special: Mapping[str, str]) -> Tokenizer:
    """Read PhoBERT's tokenizer (Nguyen and Nguyen 2020, arXiv 2003.00744).

    The BPE may end at a symbol that vocab.txt lacks, which is then unknown. tokenizer.json cannot
    express this, because the BPE's symbols would be the vocabulary. Texts are therefore split here,
    and the pieces are looked up as words. The client segments a text into words, with _ inside
    words. Raises ModelError.
    """
    rust = Tokenizer(WordLevel(_phobert_vocabulary(folder, special), unk_token=special["unk"]))
    splitter = BpeSplitter(_phobert_merges(folder))
    rust.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(splitter)
    rust.add_special_tokens(list(dict.fromkeys(special.values())))
    cls, sep = special["cls"], special["sep"]
    rust.post_processor = processors.TemplateProcessing(
        single=[cls, "$A", sep],
        pair=[cls, "$A", sep, sep, "$B", sep],
        special_tokens=[(token, rust.token_to_id(token)) for token in (cls, sep)],
    )
    ends = decoders.Replace(Regex(f"(?<!{_CONTINUES})$"), " ")
    inside = decoders.Replace(Regex(f"{_CONTINUES}$"), "")
    rust.decoder = decoders.Sequence(
        [ends, inside, decoders.Fuse(), decoders.Replace(Regex(" $"), "")]
    )
    return rust


def _phobert_vocabulary(folder: Path, special: Mapping[str, str]) -> dict[str, int]:
    first = dict.fromkeys(special[role] for role in ("bos", "pad", "eos", "unk"))
    ids = {token: id for id, token in enumerate(first)}
    for line in _phobert_lines(folder / VOCABULARY):
        token, space, _ = line.strip().rpartition(" ")
        if not space:
            raise ModelError(f"{folder / VOCABULARY}: {line[:99]!r} is not a token with its count")
        ids[token] = len(ids)
    return ids


def _phobert_merges(folder: Path) -> list[tuple[str, str]]:
    merges = []
    for line in _phobert_lines(folder / CODES):
        parts = line.split()
        if len(parts) != 3:
            raise ModelError(f"{folder / CODES}: {line[:99]!r} is not a pair with its count")
        merges.append((parts[0], parts[1]))
    return merges


def _phobert_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from None
