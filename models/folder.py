"""A model's folder, as its small files describe it: read without weights, and without torch."""

import hashlib
import logging
import sys
from dataclasses import dataclass
from pathlib import Path

from models import checkpoint, families, modules, vocabulary
from models.blueprint import Blueprint
from models.errors import ModelError
from models.families import static
from models.modules import STATIC, Normalize
from models.schemes import Buckets
from models.sentence import SentenceConfig
from models.sources import sha256
from models.tokenizer import Tokenizer
from models.vectors import Floats

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Folder:
    """path: of the model. encoder: of the part of it that has the encoder and the tokenizer."""

    path: Path
    encoder: Path
    blueprint: Blueprint
    sentence: SentenceConfig

    @classmethod
    def read(cls, path: Path) -> "Folder":
        """Raises ModelError for what is not implemented and for files that make no sense."""
        try:
            return cls._read(path)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            # Of a value whose kind nothing checks before it is reckoned with.
            raise ModelError(f"{path}: its files make no sense: {error!r}") from error

    @classmethod
    def _read(cls, path: Path) -> "Folder":
        entries = modules.entries(path)
        encoder = path / entries[0].path
        read = static.read if entries[0].kind == STATIC else families.read
        blueprint = read(encoder)
        sentence = SentenceConfig.read(path, entries, blueprint.config)
        return cls(path, encoder, blueprint, sentence)

    @property
    def dim(self) -> int:
        """The number of dimensions of a vector."""
        return self.sentence.width(self.blueprint.config.hidden_size)

    def tokenizer(self, unbroken: int = sys.maxsize) -> Tokenizer:
        """The tokenizer, as the model's options want it; one that has too many ids is logged."""
        sentence = self.sentence
        found = Tokenizer(
            self.encoder,
            sentence.max_length,
            sentence.lowercase,
            side=sentence.side,
            bare=sentence.bare,
            unknown=sentence.unknown,
            unbroken=unbroken,
        )
        last = self.blueprint.config.vocab_size - 1
        if found.highest > last:
            log.warning(
                "%s: the tokenizer has ids up to %s, the table up to %s; a text with a token "
                "beyond it cannot be embedded",
                *(self.encoder, found.highest, last),
            )
        return found

    def bias_table(self) -> Floats | None:
        """What is trained for each bucket of distances: (buckets, H), where the model has buckets.

        Raises ModelError for a checkpoint that cannot be read or has another tensor, or none.
        """
        if not isinstance(self.blueprint.config.positions, Buckets):
            return None
        names = checkpoint.headers(self.encoder)
        found = [name for name in names if self.blueprint.rename(name) == ["bias_table"]]
        if not found:
            raise ModelError(f"{self.encoder}: the checkpoint lacks ['bias_table']")
        return checkpoint.read(self.encoder, found[0])

    def checkpoints(self) -> list[Path]:
        """The folders that hold weights: the encoder's, then those of the modules after it."""
        after = [step.path for step in self.sentence.modules if not isinstance(step, Normalize)]
        return [self.encoder, *(self.path / path for path in after)]

    def fingerprint(self) -> str:
        """What decides the vectors up to rounding: weights, tokenizer, and how states are used."""
        sentence = self.sentence
        weights = [file for folder in self.checkpoints() for file in checkpoint.files(folder)]
        parts = [sha256(path) for path in [*weights, *vocabulary.files(self.encoder)]]
        parts.append(repr((sentence.max_length, sentence.pooling, sentence.lowercase)))
        parts += [] if sentence.include_prompt else ["without the prompt"]
        parts += [] if sentence.side is None else [f"cut at the {sentence.side}"]
        parts += [repr(step) for step in sentence.modules]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
