"""The file of a SentencePiece model, as far as the tokenizers of encoders need it.

The file is a protocol buffer; its schema is sentencepiece_model.proto of
https://github.com/google/sentencepiece, the encoding https://protobuf.dev/programming-guides/encoding.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import AddedToken

from models.errors import ModelError

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4  # SentencePiece.Type
_MODELS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}  # TrainerSpec.ModelType

Value = int | float | bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """One entry of the vocabulary; score: its logarithm of probability, or minus its rank."""

    text: str
    score: float
    type: int


@dataclass(frozen=True, kw_only=True)
class SentencePiece:
    """model: unigram, bpe, word or char. charsmap: how characters are normalised, b"" for not."""

    model: str
    pieces: list[Piece] = field(repr=False)
    charsmap: bytes = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> "SentencePiece":
        """Read a file; raises ModelError when it is not a SentencePiece model."""
        pieces, trainer, normalizer = [], b"", b""
        try:
            for number, value in _fields(path.read_bytes()):
                if number == 1:
                    pieces.append(_piece(_bytes(value)))
                elif number == 2:
                    trainer = _bytes(value)
                elif number == 3:
                    normalizer = _bytes(value)
            model = _MODELS[int(dict(_fields(trainer)).get(3, 1))]
            charsmap = _bytes(dict(_fields(normalizer)).get(2, b""))
        except (LookupError, ValueError, struct.error) as error:
            raise ModelError(f"{path} is not a SentencePiece model: {error}") from None
        if not pieces:
            raise ModelError(f"{path} is not a SentencePiece model: it has no pieces")
        return cls(model=model, pieces=pieces, charsmap=charsmap)

    @property
    def scores(self) -> list[tuple[str, float]]:
        return [(piece.text, piece.score) for piece in self.pieces]

    @property
    def added(self) -> list[AddedToken]:
        """The pieces that are matched before all others: control symbols and users' own."""
        return [
            AddedToken(piece.text, normalized=False, special=piece.type == CONTROL)
            for piece in self.pieces
            if piece.type in (CONTROL, USER_DEFINED)
        ]

    def merges(self) -> list[tuple[str, str]]:
        """The pairs of pieces that make a piece, best first: BPE merges, which the file lacks."""
        known = {piece.text for piece in self.pieces}
        return [
            (piece.text[:i], piece.text[i:])
            for piece in self.pieces
            for i in range(1, len(piece.text))
            if piece.text[:i] in known and piece.text[i:] in known
        ]


def _piece(message: bytes) -> Piece:
    values = dict(_fields(message))
    text = _bytes(values.get(1, b"")).decode()
    return Piece(text, float(values.get(2, 0.0)), int(values.get(3, NORMAL)))


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a field is a number where bytes are due")
    return value


def _fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """The numbers and values of a message's fields, in order."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        value, at = _value(message, at, key & 7)
        yield key >> 3, value


def _value(message: bytes, at: int, wire: int) -> tuple[Value, int]:
    if wire == 0:
        return _varint(message, at)
    if wire == 5:
        return struct.unpack_from("<f", message, at)[0], at + 4
    if wire == 1:
        return struct.unpack_from("<d", message, at)[0], at + 8
    if wire != 2:
        raise ValueError(f"wire type {wire} is not known")
    size, at = _varint(message, at)
    if at + size > len(message):
        raise ValueError("it ends in the middle of a field")
    return message[at : at + size], at + size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 64, 7):
        byte = message[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise ValueError("a number is longer than 64 bits")
