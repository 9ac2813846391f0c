"""A model's folder, as its small files describe it: read without weights, and without torch."""

import hashlib
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from models import families
from models.checkpoint import safetensors_files
from models.checksum import sha256
from models.config.checkpoint_spec import CheckpointSpec
from models.errors import ModelError
from models.families import static
from models.positions.schemes import Buckets
from models.sentence_transformers import modules
from models.sentence_transformers.classifier import Classifier, has_second_segment
from models.sentence_transformers.modules import STATIC, Entry, Normalize
from models.sentence_transformers.pooling import AUTO
from models.sentence_transformers.refusals import (
    CARD,
    refuse_changed_weights,
    refuse_other_kinds,
)
from models.sentence_transformers.sentence import SentenceConfig
from models.sentence_transformers.transformer import options_file
from models.tokenizer.loading import loader
from models.tokenizer.tokenizer import Tokenizer
from models.vectors import Floats

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Folder:
    """path: of the model. encoder: of the part of it that has the encoder and the tokenizer.

    classifier: of a model that reranks or classifies; None for an embedder.
    """

    path: Path
    encoder: Path
    spec: CheckpointSpec
    sentence: SentenceConfig
    classifier: Classifier | None = None

    @classmethod
    def read(cls, path: Path, pooling: str = AUTO) -> "Folder":
        """The files of a folder. pooling: in place of the one that they name, unless AUTO.

        Raises ModelError for what is not implemented and for files that make no sense.
        """
        try:
            return cls._read(path, pooling)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            # Of a value whose kind nothing checks before it is reckoned with.
            raise ModelError(f"{path}: its files make no sense: {error!r}") from error

    @classmethod
    def _read(cls, path: Path, pooling: str) -> "Folder":
        refuse_other_kinds(path)
        entries = modules.entries(path)
        encoder = path / entries[0].path
        refuse_changed_weights(encoder)
        read = static.read if entries[0].kind == STATIC else families.read
        spec = read(encoder)
        classifier = _classifier(path, entries, spec, pooling)
        if classifier:
            config = replace(spec.config, pairs=has_second_segment(encoder, spec.config))
            spec = replace(spec.without(classifier.head.tensors), config=config)
        sentence = SentenceConfig.read(path, entries, spec, pooling, classifier)
        return cls(path, encoder, spec, sentence, classifier)

    @property
    def dim(self) -> int:
        """The number of dimensions of a vector."""
        return self.sentence.width(self.spec.config.hidden_size)

    def tokenizer(self, max_chunk_size: int = sys.maxsize) -> Tokenizer:
        """The tokenizer, as the model's options want it; one that has too many ids is logged."""
        sentence = self.sentence
        found = Tokenizer(
            self.encoder,
            sentence.max_length,
            sentence.lowercase,
            side=sentence.side,
            file_only=sentence.file_only,
            keep_unknown=sentence.keep_unknown,
            max_chunk_size=max_chunk_size,
        )
        last = self.spec.config.vocab_size - 1
        if found.max_id > last:
            log.warning(
                "%s: the tokenizer has ids up to %s, the table up to %s; a text with a token "
                "beyond it cannot be embedded",
                *(self.encoder, found.max_id, last),
            )
        return found

    def bias_table(self) -> Floats | None:
        """What is trained for each bucket of distances: (buckets, H), where the model has buckets.

        Raises ModelError for a checkpoint that cannot be read or has another tensor, or none.
        """
        positions = self.spec.config.positions
        if not isinstance(positions, Buckets) or not positions.shared:
            return None
        names = safetensors_files.headers(self.encoder)
        found = [name for name in names if self.spec.rename(name) == ["bias_table"]]
        if not found:
            raise ModelError(f"{self.encoder}: the checkpoint lacks ['bias_table']")
        return safetensors_files.read(self.encoder, found[0])

    def checkpoints(self) -> list[Path]:
        """The folders that hold weights: the encoder's, then those of the modules after it."""
        steps = [step for step in self.sentence.modules if not isinstance(step, Normalize)]
        after = [self.path / step.path for step in steps]
        return [self.encoder, *(path for path in after if path != self.encoder)]

    def files(self) -> list[Path]:
        """Every file that is read: of weights, of the tokenizer, of options and prompts."""
        checkpoints = map(safetensors_files.files, self.checkpoints())
        weights = [file for files in checkpoints for file in files]
        options = [self.path / name for name in ("modules.json", CARD)]
        options += [self.path / entry.path / "config.json" for entry in modules.entries(self.path)]
        options += options_file(self.encoder)
        found = {*weights, *loader.files(self.encoder), *filter(Path.is_file, options)}
        return sorted(found)

    def fingerprint(self) -> str:
        """What decides the vectors up to precision and rounding: the files, and the pooling."""
        parts = [f"{file.relative_to(self.path)} {sha256(file)}" for file in self.files()]
        parts.append(repr(self.sentence.pooling))  # the operator may set another than theirs
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _classifier(
    path: Path, entries: Sequence[Entry], spec: CheckpointSpec, pooling: str
) -> Classifier | None:
    # A Pooling, from the files or from the operator, makes an embedder of a classifier's encoder.
    if len(entries) > 1 or pooling != AUTO or entries[0].kind == STATIC:
        return None
    return Classifier.read(path, entries[0].path, spec.config)
