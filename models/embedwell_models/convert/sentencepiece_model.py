"""A SentencePiece file, and its normalisation of characters in a tokenizer of another library."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tokenizers import Tokenizer, normalizers
from tokenizers.normalizers import Normalizer

from embedwell_models.config import other_files
from embedwell_models.errors import ModelError

_COMPOSED = "각ếが"


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
        # The second NFC is for half-width kana, which become a letter and a mark.
        return [normalizers.NFC(), *steps, normalizers.NFC()] if self._composes() else steps

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

    def _composes(self) -> bool:
        decomposed = unicodedata.normalize("NFD", _COMPOSED)
        return bool(self.processor.normalize(decomposed).strip("▁") == _COMPOSED)
