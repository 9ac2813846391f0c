"""Vocabulary of a table of word vectors, n-grams of other words, and the files that hold them."""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.tokenizer.loading.tokenizer_kind import LISTED, MAPPED

_METADATA = "options"
_FNV_OFFSET, _FNV_PRIME = 2166136261, 16777619  # constants of the hash FNV-1a with 32 bits
MAX_CHARACTERS = 1000
"""Maximum length of a word that is split to n-grams: each of its characters starts several."""

_Arrays = Mapping[str, npt.NDArray[Any]]
_ARRAY_NAMES = ("text", "ends", "keys", "order")


class Vocabulary:
    """V words, one for each row of a table.

    Only pages that were read are in memory, and processes share the pages of a file.
    """

    def __init__(self, arrays: _Arrays) -> None:
        """arrays: text, the concatenated UTF-8 words; ends (V,), the end of each in it; keys (V,),
        hashes of the words in ascending order; order (V,), the index of each key's word.
        """
        self.arrays = arrays
        self._text, self._ends, self._keys, self._order = (
            np.ascontiguousarray(arrays[name]).data for name in _ARRAY_NAMES
        )

    @classmethod
    def of(cls, words: Iterable[str]) -> "Vocabulary":
        """Build the arrays of a list of words."""
        encoded = [word.encode() for word in words]
        keys = np.array([_key(word) for word in encoded], dtype=np.uint64)
        order = np.argsort(keys, kind="stable")
        arrays: _Arrays = {
            "text": np.frombuffer(b"".join(encoded), dtype=np.uint8),
            "ends": np.array([*accumulate(map(len, encoded))], dtype=np.int64),
            "keys": keys[order],
            "order": order.astype(np.int64),
        }
        return cls(arrays)

    def __len__(self) -> int:
        return len(self._ends)

    def find(self, word: str) -> int | None:
        """Return the row of a word; None for an unknown word. The last of equal words counts."""
        encoded = word.encode(errors="surrogatepass")
        key = _key(encoded)
        place = bisect_right(self._keys, key) - 1
        while place >= 0 and self._keys[place] == key:
            row: int = self._order[place]
            if self._encoded(row) == encoded:
                return row
            place -= 1
        return None

    def word(self, row: int) -> str:
        """Return the word whose vector is in a row of the table."""
        return self._encoded(row).decode()

    def _encoded(self, row: int) -> bytes:
        start = self._ends[row - 1] if row else 0
        return bytes(self._text[start : self._ends[row]])


@dataclass(frozen=True)
class Subwords:
    """Character n-grams of words that a vocabulary lacks, with fastText's numbers.

    Bojanowski et al. 2016, arXiv 1607.04606. N-grams have min_length to max_length characters and
    are hashed into `buckets`.
    """

    min_length: int
    max_length: int
    buckets: int

    def of(self, word: str) -> list[int]:
        """Return the bucket of each n-gram of a word, in fastText's order."""
        if len(word) > MAX_CHARACTERS:
            return []
        return [value % self.buckets for value in self._hashes(f"<{word}>")]

    def _hashes(self, marked: str) -> Iterator[int]:
        characters = [character.encode(errors="surrogatepass") for character in marked]
        for start in range(len(characters)):
            value = _FNV_OFFSET
            for length, character in enumerate(characters[start : start + self.max_length], 1):
                for byte in character:  # a signed byte, as in fastText
                    signed = byte | 0xFFFFFF00 if byte > 127 else byte
                    value = (value ^ signed) * _FNV_PRIME & 0xFFFFFFFF
                is_mark = length == 1 and start in (0, len(characters) - 1)
                if length >= self.min_length and not is_mark:
                    yield value


@dataclass(frozen=True)
class WordOptions:
    """Options of the look-up of words in a vocabulary.

    stop_words: words that are left out of every text. lowercase: whether texts are lowercased.
    exact: whether a word is looked up only as written, and not also without surrounding punctuation
    and in lower case. subwords: n-grams of words that the vocabulary lacks; None if these have no
    vector.
    """

    stop_words: frozenset[str] = frozenset()
    lowercase: bool = False
    exact: bool = False
    subwords: Subwords | None = None

    @classmethod
    def read(cls, folder: Path) -> "WordOptions":
        """Read the options of a folder; raises ModelError."""
        if not (folder / MAPPED).is_file():
            listed = JsonConfig(folder / LISTED)
            listed.refuse_unknown({"vocab", "stop_words", "do_lower_case"})
            return cls(
                frozenset(listed.get("stop_words", [])), bool(listed.get("do_lower_case", False))
            )
        metadata = safetensors_files.metadata(folder / MAPPED)
        try:
            options: dict[str, Any] = json.loads(metadata[_METADATA])
            subwords = options.pop("subwords")
            stop_words = frozenset(options.pop("stop_words"))
            return cls(stop_words, subwords=Subwords(**subwords) if subwords else None, **options)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{folder / MAPPED} has no valid options: {error!r}") from None

    def as_metadata(self) -> Mapping[str, str]:
        """Return the metadata of a file MAPPED."""
        return {_METADATA: json.dumps({**asdict(self), "stop_words": sorted(self.stop_words)})}


def read_vocabulary(folder: Path) -> Vocabulary:
    """Map the vocabulary of a folder, or read its list of words; raises ModelError."""
    if not (folder / MAPPED).is_file():
        return Vocabulary.of(JsonConfig(folder / LISTED)["vocab"])
    arrays = safetensors_files.map_arrays(folder / MAPPED)
    if missing := {*_ARRAY_NAMES} - {*arrays}:
        raise ModelError(f"{folder / MAPPED} lacks {sorted(missing)}")
    return Vocabulary({name: arrays[name] for name in _ARRAY_NAMES})


def _key(word: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")
