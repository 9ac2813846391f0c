"""ELMo's tokenizer, whose ids are the bytes of words."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from tokenizers import Tokenizer

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.tokenizer.loading.loader import LoadedTokenizer
from embedwell_models.tokenizer.loading.tokenizer_kind import CHARACTER_FILE
from embedwell_models.tokenizer.python_tokenizers import PythonTokenizer, WordEncoding

_BYTES = 256
_AT_SPACES = re.compile(r"\S+")
_AT_PUNCTUATION = re.compile(r"\w+(?:[-.'’]\w+)*|[^\w\s]")


def load(folder: Path, lowercase: bool, special_tokens: bool) -> LoadedTokenizer:
    """Load the tokenizer of a folder; raises ModelError."""
    return LoadedTokenizer(cast(Tokenizer, CharacterTokenizer.read(folder)), "right", {})


class CharacterTokenizer(PythonTokenizer):
    """Tokenizer whose ids are the bytes of words.

    The ids of a word are its UTF-8 bytes, plus 256 for each byte but the first. All ids have the
    name and the offsets of the word.
    """

    def __init__(self, split_punctuation: bool) -> None:
        """split_punctuation: whether a punctuation mark outside words is a word of its own."""
        super().__init__(unknown="")
        self._words = _AT_PUNCTUATION if split_punctuation else _AT_SPACES

    @classmethod
    def read(cls, folder: Path) -> "CharacterTokenizer":
        """Read the tokenizer's options from a folder; raises ModelError."""
        return cls(JsonConfig(folder / CHARACTER_FILE).get("split_punctuation", True))

    def get_vocab_size(self) -> int:
        """Return the number of ids that start a word."""
        return _BYTES

    def id_to_token(self, id: int) -> str | None:
        """Return the character of a byte, <0x…> if it is not printable; None for other ids."""
        if not 0 <= id < 2 * _BYTES:
            return None
        byte = id % _BYTES
        return chr(byte) if 32 < byte < 127 else f"<0x{byte:02X}>"

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a word of one byte; None for other words."""
        encoded = token.encode(errors="surrogatepass")
        return encoded[0] if len(encoded) == 1 else None

    def encode(self, text: str, add_special_tokens: bool = True) -> WordEncoding:
        """Return the ids of a text with their offsets; there are no special tokens."""
        ids: list[int] = []
        tokens: list[str] = []
        offsets: list[tuple[int, int]] = []
        for word in self._words.finditer(text):
            first, *others = word[0].encode(errors="surrogatepass")
            ids += [first, *(byte + _BYTES for byte in others)]
            tokens += [word[0]] * (1 + len(others))
            offsets += [word.span()] * (1 + len(others))
        return WordEncoding(ids, tokens, offsets)

    def decode_batch(
        self, rows: Sequence[Sequence[int]], skip_special_tokens: bool = True
    ) -> list[str]:
        """Return the words of each row of ids, separated by spaces."""
        return [b" ".join(_words_of_bytes(row)).decode(errors="replace") for row in rows]


def _words_of_bytes(row: Sequence[int]) -> Iterator[bytes]:
    word = bytearray()
    for id in row:
        if id < _BYTES and word:
            yield bytes(word)
            word.clear()
        word.append(id % _BYTES)
    yield bytes(word)
