"""Character n-grams of words that a vocabulary lacks, with fastText's numbers.

Bojanowski et al. 2016, arXiv 1607.04606.
"""

from collections.abc import Iterator
from dataclasses import dataclass

_OFFSET, _PRIME = 2166136261, 16777619  # constants of the hash FNV-1a with 32 bits
MAX_CHARACTERS = 1000
"""Maximum length of a word that is split: each of its characters starts several n-grams."""


@dataclass(frozen=True)
class Subwords:
    """N-grams of min_length to max_length characters, hashed into `buckets`."""

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
            value = _OFFSET
            for length, character in enumerate(characters[start : start + self.max_length], 1):
                for byte in character:  # a signed byte, as in fastText
                    signed = byte | 0xFFFFFF00 if byte > 127 else byte
                    value = (value ^ signed) * _PRIME & 0xFFFFFFFF
                is_mark = length == 1 and start in (0, len(characters) - 1)
                if length >= self.min_length and not is_mark:
                    yield value
