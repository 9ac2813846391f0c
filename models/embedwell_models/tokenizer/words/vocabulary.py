"""Vocabulary of a table of word vectors: word to row and back, from arrays in a mapped file."""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]
NAMES = ("text", "ends", "keys", "order")


class Vocabulary:
    """V words, one for each row of a table.

    Only pages that were read are in memory, and processes share the pages of a file.
    """

    def __init__(self, arrays: Arrays) -> None:
        """arrays: text, the concatenated UTF-8 words; ends (V,), the end of each in it; keys (V,),
        hashes of the words in ascending order; order (V,), the index of each key's word.
        """
        self.arrays = arrays
        self._text, self._ends, self._keys, self._order = (
            np.ascontiguousarray(arrays[name]).data for name in NAMES
        )

    @classmethod
    def of(cls, words: Iterable[str]) -> "Vocabulary":
        """Build the arrays of a list of words."""
        encoded = [word.encode() for word in words]
        keys = np.array([_key(word) for word in encoded], dtype=np.uint64)
        order = np.argsort(keys, kind="stable")
        arrays: Arrays = {
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


def _key(word: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(word, digest_size=8).digest(), "little")
