"""A SentencePiece file, its normalisation in another library's tokenizer, and their comparison."""

import logging
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer, normalizers
from tokenizers.normalizers import Normalizer

from embedwell_models.config import other_files
from embedwell_models.errors import ModelError

log = logging.getLogger(__name__)

_COMPOSED = "각ếが"

_PLAIN_TEXT = "the first word of this text and the last one of it"  # no normaliser changes it


def _decomposed(text: str) -> tuple[str, str]:
    return unicodedata.normalize("NFD", text), text


VARIANTS = {
    "decomposed Korean": _decomposed("한국어 문장을 읽습니다"),
    "decomposed Vietnamese": _decomposed("tiếng việt là ngôn ngữ của người việt"),
    "decomposed Japanese": _decomposed("がぎぐげご パピプペポ"),
    "half-width kana": ("ｶﾞｷﾞ ﾊﾟ", "ガギ パ"),
    "full-width letters": ("ｔｈｅ\u3000ｗｏｒｄ", "the word"),
    "ligatures": ("the ﬁrst oﬀer", "the first offer"),
    "circled digits": ("① ②", "1 2"),
    "no-break spaces": ("the\u00a0word", "the word"),
    "zero-width characters": ("the\u200bword of\ufeffit", "the word of it"),
    "tabs and newlines": ("the\tword\nof it", "the word of it"),
    "several spaces": ("the   word  of it", "the word of it"),
    "outer spaces": ("  the word ", "the word"),
}
"""Kinds of texts, each with a plain text that most SentencePiece files read as the same."""


@dataclass(frozen=True)
class SentencePieceModel:
    """proto: content of the file. processor: SentencePiece's own tokenizer of this file."""

    proto: Any
    processor: Any

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file; raises ModelError for another kind of file."""
        from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

        other_files.refuse_pointer(path)
        schema: Any = sentencepiece_model_pb2
        create: Any = SentencePieceProcessor
        proto = schema.ModelProto()
        try:
            proto.ParseFromString(path.read_bytes())
            return cls(proto, create(model_file=str(path)))
        except Exception as error:  # protobuf does not document its exceptions
            raise ModelError(f"{path} is not a SentencePiece file: {error}") from None

    def pieces(self, text: str) -> list[str]:
        """Split a text, without special tokens."""
        return [self.processor.id_to_piece(id) for id in self.processor.encode(text)]

    def names(self, tokens: Sequence[str]) -> list[str]:
        """Return tokens as `pieces` does, which names unknown ones alike."""
        ids = self.processor.piece_to_id([*tokens])
        return [self.processor.id_to_piece(id) for id in ids]

    def character_steps(self) -> list[Normalizer]:
        """Return the steps that normalise characters like this file; none if it changes none.

        Precompiled misses most sequences of several characters: it looks up one character, or a
        grapheme of at most five bytes by its first match. A vocabulary has only composed letters.
        """
        table = self.proto.normalizer_spec.precompiled_charsmap
        if not table:
            return []
        steps: list[Normalizer] = [normalizers.Precompiled(table)]
        decomposed = unicodedata.normalize("NFD", _COMPOSED)
        composes = self.processor.normalize(decomposed).strip("▁") == _COMPOSED
        # The second NFC is for half-width kana, which become a letter and a mark.
        return [normalizers.NFC(), *steps, normalizers.NFC()] if composes else steps

    def normalize_characters(self, rust: Tokenizer) -> None:
        """Make a tokenizer normalise characters like this file."""
        if not (own := self.character_steps()):
            return
        old: Any = rust.normalizer
        several = isinstance(old, normalizers.Sequence)
        steps = [*old] if several else [old] if old else []
        if not any(isinstance(step, normalizers.Precompiled) for step in steps):
            steps = [*own, *steps]  # transformers leaves the table of DeBERTa's files out
        else:
            steps = [
                new
                for step in steps
                for new in (own if isinstance(step, normalizers.Precompiled) else [step])
            ]
        rust.normalizer = normalizers.Sequence(steps)


def refuse_other_pieces(path: Path, model: SentencePieceModel, rust: Tokenizer) -> None:
    """Raise ModelError if a tokenizer splits a plain text otherwise than SentencePiece.

    transformers misreads some files, such as Llama's without a tokenizer_class.
    """
    expected = model.pieces(_PLAIN_TEXT)
    tokens = model.names(rust.encode(_PLAIN_TEXT, add_special_tokens=False).tokens)
    if tokens != expected:
        raise ModelError(
            f"{path}: transformers splits a text into {tokens[:4]}, SentencePiece into "
            f"{expected[:4]}: name the tokenizer_class in tokenizer_config.json, or add a "
            "tokenizer.json"
        )


def warn_of_variants(path: Path, model: SentencePieceModel, rust: Tokenizer) -> None:
    """Log the kinds of texts that SentencePiece reads as plain text, but a tokenizer does not."""
    kinds = [kind for kind, texts in VARIANTS.items() if _only_ours_differ(model, rust, *texts)]
    if kinds:
        log.warning(
            "%s: SentencePiece reads %s like plain text, but tokenizer.json, which transformers "
            "made, does not: their vectors differ from those of plain text",
            *(path, ", ".join(kinds)),
        )


def _only_ours_differ(model: SentencePieceModel, rust: Tokenizer, text: str, plain: str) -> bool:
    ours, other = (rust.encode(each, add_special_tokens=False).ids for each in (text, plain))
    return model.pieces(text) == model.pieces(plain) and ours != other
