"""Tokenizers in Python, with the interface of the library tokenizers: bytes, code points."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import models, pre_tokenizers

from embedwell_models.config.json_config import JsonConfig

CHARACTER_FILE = "character_tokenizer.json"
"""Options of a CharacterTokenizer."""
_BYTES = 256
_AT_SPACES = re.compile(r"\S+")
_AT_PUNCTUATION = re.compile(r"\w+(?:[-.'’]\w+)*|[^\w\s]")

# CANINE's special tokens; all but the first are in Unicode's private use area.
_PAD, _CLS, _SEP, _MASK = 0, 0xE000, 0xE001, 0xE003
CODE_POINTS = 0x110000
"""Number of Unicode code points, each of which is a token."""
MAX_CODE_POINTS = 2048
"""Default maximum number of tokens of a text, as in transformers' class."""
CODE_POINT_ROLES: Mapping[str, str] = {
    **{"bos": chr(_CLS), "eos": chr(_SEP), "sep": chr(_SEP)},
    **{"pad": chr(_PAD), "cls": chr(_CLS), "mask": chr(_MASK)},
}
"""Role -> CANINE's special token."""
_SPECIAL_NAMES: Mapping[int, str] = {_PAD: "[PAD]", _CLS: "[CLS]", _SEP: "[SEP]", _MASK: "[MASK]"}
_BEFORE_MASK = re.compile(rf"\s+(?={chr(_MASK)})")


@dataclass(frozen=True, slots=True)
class WordEncoding:
    """Ids of a text with names and offsets, like an Encoding of the library tokenizers."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]

    @property
    def special_tokens_mask(self) -> list[int]:
        """Zeros: there are no special tokens."""
        return [0] * len(self.ids)


class PythonTokenizer(ABC):
    """A tokenizer with the attributes and methods of `tokenizers.Tokenizer` that are used here.

    By default it splits texts at white space and adds no tokens.
    """

    normalizer = None
    pre_tokenizer: pre_tokenizers.PreTokenizer = pre_tokenizers.WhitespaceSplit()
    post_processor = None
    truncation = None
    decoder = None

    def __init__(self, unknown: str) -> None:
        """unknown: the name of an unknown word."""
        self.model = models.WordLevel({}, unk_token=unknown)

    @abstractmethod
    def get_vocab_size(self) -> int:
        """Return the number of ids."""

    def get_added_tokens_decoder(self) -> dict[int, object]:
        """Return an empty mapping: there are no added tokens."""
        return {}

    @abstractmethod
    def id_to_token(self, id: int) -> str | None:
        """Return the name of an id; None for one that does not exist."""

    @abstractmethod
    def token_to_id(self, token: str) -> int | None:
        """Return the id of a name; None for an unknown name."""

    @abstractmethod
    def encode(self, text: str, add_special_tokens: bool = True) -> WordEncoding:
        """Return the ids of a text with their offsets."""

    def encode_batch(
        self, texts: Sequence[str], add_special_tokens: bool = True
    ) -> list[WordEncoding]:
        """Return the ids of texts with their offsets."""
        return [self.encode(text, add_special_tokens) for text in texts]

    encode_batch_fast = encode_batch

    @abstractmethod
    def decode_batch(
        self, rows: Sequence[Sequence[int]], skip_special_tokens: bool = True
    ) -> list[str]:
        """Return the text of each row of ids."""


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


@dataclass(frozen=True, slots=True)
class FramedEncoding(WordEncoding):
    """Ids of a text between two special tokens."""

    @property
    def special_tokens_mask(self) -> list[int]:
        """Ones for the first and the last token, else zeros."""
        return [1, *[0] * (len(self.ids) - 2), 1]


class CodePointTokenizer(PythonTokenizer):
    """CANINE's tokenizer (arXiv 2103.06874): tokens are characters, ids their code points."""

    pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # tells where a long text may be split

    def __init__(self, special_tokens: bool = True, strips_mask: bool = False) -> None:
        """special_tokens: whether special tokens are added around a text.

        strips_mask: whether spaces before a mask token are left out.
        """
        super().__init__(unknown="")
        self._special_tokens, self._strips_mask = special_tokens, strips_mask

    def get_vocab_size(self) -> int:
        """Return the number of code points."""
        return CODE_POINTS

    def id_to_token(self, id: int) -> str | None:
        """Return the character of a code point, or its name; None for other ids."""
        return _SPECIAL_NAMES.get(id) or chr(id) if 0 <= id < CODE_POINTS else None

    def token_to_id(self, token: str) -> int | None:
        """Return the code point of a character; None for other tokens."""
        return ord(token) if len(token) == 1 else None

    def encode(self, text: str, add_special_tokens: bool = True) -> WordEncoding:
        """Return the code points of a text with their offsets."""
        ids, tokens = [*map(ord, text)], [*text]
        offsets = [(index, index + 1) for index in range(len(text))]
        for spaces in reversed([*_BEFORE_MASK.finditer(text)] if self._strips_mask else []):
            span = slice(*spaces.span())
            del ids[span], tokens[span], offsets[span]
        if not (add_special_tokens and self._special_tokens):
            return WordEncoding(ids, tokens, offsets)
        return FramedEncoding(
            [_CLS, *ids, _SEP],
            [_SPECIAL_NAMES[_CLS], *tokens, _SPECIAL_NAMES[_SEP]],
            [(0, 0), *offsets, (0, 0)],
        )

    def decode_batch(
        self, rows: Sequence[Sequence[int]], skip_special_tokens: bool = True
    ) -> list[str]:
        """Return the characters of rows of code points."""
        skipped = _SPECIAL_NAMES if skip_special_tokens else ()
        return ["".join(chr(id) for id in row if id not in skipped) for row in rows]


def is_code_point_tokenizer(folder: Path) -> bool:
    """Whether the tokens of a folder's model are code points, by its class or else its family."""
    config = JsonConfig.optional(folder / "config.json")
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    name = options.get("tokenizer_class", "") or config.get("tokenizer_class", "")
    return (name or config.get("model_type", "")) in ("CanineTokenizer", "canine")
