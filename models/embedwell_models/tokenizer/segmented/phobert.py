"""PhoBERT's tokenizer (Nguyen and Nguyen 2020, arXiv 2003.00744), from vocab.txt and bpe.codes.

The BPE may end at a symbol that vocab.txt lacks, which is then unknown. tokenizer.json cannot
express this, because the BPE's symbols would be the vocabulary. Texts are therefore split here, and
the pieces are looked up as words. The client segments a text into words, with _ inside words.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE, WordLevel

from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.segmented.pre_tokenizer import Piece, PythonPreTokenizer

CODES, VOCABULARY = "bpe.codes", "vocab.txt"
SPECIAL = {
    **{"bos": "<s>", "pad": "<pad>", "eos": "</s>", "unk": "<unk>"},  # in the order of the ids
    **{"sep": "</s>", "cls": "<s>", "mask": "<mask>"},
}
_WORD = re.compile(r"\S+\n?")  # with the line end, as in PhobertTokenizer
_END, _INSIDE = "</w>", "@@"
_MAX_CACHED = 1 << 15  # words
_MAX_CACHED_LENGTH = 32  # characters of a word


class BpeSplitter(PythonPreTokenizer):
    """Splitter of words by the merges of a BPE; all pieces of a word but the last get a suffix."""

    def __init__(self, merges: Sequence[tuple[str, str]]) -> None:
        """merges: pairs of symbols in the order of their ranks."""
        symbols = dict.fromkeys(part for a, b in merges for part in (a, b, a + b))
        vocabulary = {symbol: id for id, symbol in enumerate(["", *symbols])}
        self._bpe = BPE(vocabulary, list(merges), unk_token="", end_of_word_suffix=_END)
        self._cache: dict[str, list[Piece]] = {}

    def pieces(self, text: str) -> list[Piece]:
        """Split a text into words at white space, and each word by the merges."""
        return [
            Piece(word.start() + start, word.start() + stop, suffix)
            for word in _WORD.finditer(text)
            for start, stop, suffix in self._cache.get(word[0]) or self._split(word[0])
        ]

    def _split(self, word: str) -> list[Piece]:
        encoded, stops = word.encode(), [0]
        for token in self._bpe.tokenize(word):
            start, stop = token.offsets  # in bytes
            stops.append(stops[-1] + len(encoded[start:stop].decode()))
        spans = list(pairwise(stops))
        pieces = [Piece(*span, _INSIDE if span[1] < len(word) else "") for span in spans]
        if len(word) <= _MAX_CACHED_LENGTH:
            # A full cache is replaced and not cleared, because other threads may read it.
            cache = self._cache if len(self._cache) < _MAX_CACHED else {}
            cache[word] = pieces
            self._cache = cache
        return pieces


def read(folder: Path, special: Mapping[str, str]) -> Tokenizer:
    """Read a folder's tokenizer. special: the token of each role. Raises ModelError."""
    rust = Tokenizer(WordLevel(_vocabulary(folder, special), unk_token=special["unk"]))
    splitter = BpeSplitter(_merges(folder))
    rust.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(splitter)
    rust.add_special_tokens(list(dict.fromkeys(special.values())))
    cls, sep = special["cls"], special["sep"]
    rust.post_processor = processors.TemplateProcessing(
        single=[cls, "$A", sep],
        pair=[cls, "$A", sep, sep, "$B", sep],
        special_tokens=[(token, rust.token_to_id(token)) for token in (cls, sep)],
    )
    ends = decoders.Replace(Regex(f"(?<!{_INSIDE})$"), " ")
    inside = decoders.Replace(Regex(f"{_INSIDE}$"), "")
    rust.decoder = decoders.Sequence(
        [ends, inside, decoders.Fuse(), decoders.Replace(Regex(" $"), "")]
    )
    return rust


def _vocabulary(folder: Path, special: Mapping[str, str]) -> dict[str, int]:
    first = dict.fromkeys(special[role] for role in ("bos", "pad", "eos", "unk"))
    ids = {token: id for id, token in enumerate(first)}
    for line in _lines(folder / VOCABULARY):
        token, space, _ = line.strip().rpartition(" ")
        if not space:
            raise ModelError(f"{folder / VOCABULARY}: {line[:99]!r} is not a token with its count")
        ids[token] = len(ids)
    return ids


def _merges(folder: Path) -> list[tuple[str, str]]:
    merges = []
    for line in _lines(folder / CODES):
        parts = line.split()
        if len(parts) != 3:
            raise ModelError(f"{folder / CODES}: {line[:99]!r} is not a pair with its count")
        merges.append((parts[0], parts[1]))
    return merges


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from None
