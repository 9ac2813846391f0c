"""The description of a model's folder by its small files, read without weights or torch."""

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
from models.output_names import DENSE, MULTI, SPARSE, SPARSE_QUERY
from models.positions.schemes import Buckets, Disentangled
from models.sentence_transformers import modules
from models.sentence_transformers.classifier import Classifier, Task, has_second_segment
from models.sentence_transformers.modules import STATIC, Entry, Normalize
from models.sentence_transformers.multi_vector import METADATA, MultiVector
from models.sentence_transformers.multi_vector_tokens import MultiVectorTokens
from models.sentence_transformers.pooling import AUTO
from models.sentence_transformers.refusals import (
    CARD,
    refuse_changed_weights,
    refuse_other_kinds,
)
from models.sentence_transformers.sentence import SentenceConfig
from models.sentence_transformers.sparse import Splade, sparse_files
from models.sentence_transformers.transformer import options_file
from models.tokenizer.loading import loader
from models.tokenizer.tokenizer import Tokenizer
from models.vectors import Floats

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Folder:
    """A model's folder. encoder: the folder in it with the encoder and the tokenizer.

    classifier: of a model that reranks or classifies; None for an embedder. multi_vector: of a
    model with a vector for each token; None for others.
    """

    path: Path
    encoder: Path
    spec: CheckpointSpec
    sentence: SentenceConfig
    classifier: Classifier | None = None
    multi_vector: MultiVector | None = None

    @classmethod
    def read(cls, path: Path, pooling: str = AUTO) -> "Folder":
        """Read the small files of a folder. pooling: overrides that of the files, unless AUTO.

        Raises ModelError for a model that is not supported, and for invalid files.
        """
        try:
            return cls._read(path, pooling)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            # From a value whose type was not validated before its use.
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
            config = replace(spec.config, two_segments=has_second_segment(encoder, spec.config))
            spec = replace(spec.without(classifier.head.tensors), config=config)
        multi_vector = MultiVector.read(path, entries, spec.config.hidden_size)
        if multi_vector:
            _check_multi_vector(path, multi_vector, spec, pooling)
            spec = spec.without(multi_vector.outside_tensors)
            sentence = SentenceConfig.of_multi_vector(
                path, entries[0].path, spec.config, multi_vector
            )
        else:
            sentence = SentenceConfig.read(path, entries, spec, pooling, classifier)
        return cls(path, encoder, spec, sentence, classifier, multi_vector)

    @property
    def task(self) -> Task:
        """The kind of model: whether it embeds texts or tokens, reranks or classifies."""
        if self.multi_vector:
            return "multi_vector"
        return self.classifier.task if self.classifier else "embed"

    @property
    def outputs(self) -> tuple[str, ...]:
        """What it computes of a text (models.output_names); nothing if it reranks."""
        if self.classifier:
            return ()
        if self.multi_vector:
            return (MULTI,)
        sparse = self.sentence.sparse
        if isinstance(sparse, Splade):
            return (SPARSE, SPARSE_QUERY) if sparse.query else (SPARSE,)
        return (DENSE, SPARSE) if sparse else (DENSE,)

    @property
    def dim(self) -> int:
        """The number of dimensions of a vector."""
        return self.sentence.width(self.spec.config)

    def tokenizer(self, max_chunk_size: int = sys.maxsize) -> Tokenizer:
        """Load the tokenizer with the model's options; log one with ids beyond the table."""
        sentence = self.sentence
        tokenizer = Tokenizer(
            self.encoder,
            sentence.max_length,
            sentence.lowercase,
            side=sentence.side,
            file_only=sentence.file_only,
            keep_unknown=sentence.keep_unknown,
            markers=self.multi_vector.markers if self.multi_vector else (),
            max_chunk_size=max_chunk_size,
        )
        last = self.spec.config.vocab_size - 1
        if tokenizer.max_id > last:
            log.warning(
                "%s: the tokenizer has ids up to %s, the table up to %s; a text with a token "
                "beyond it cannot be embedded",
                *(self.encoder, tokenizer.max_id, last),
            )
        return tokenizer

    def multi_vector_tokens(self, tokenizer: Tokenizer) -> MultiVectorTokens | None:
        """Return what a multi-vector model does with token ids; None for other models.

        Raises ModelError for a token that the tokenizer lacks.
        """
        options = self.multi_vector
        return MultiVectorTokens(options, tokenizer, self.encoder) if options else None

    def bias_table(self) -> Floats | None:
        """Read the trained bias of each bucket of distances (buckets, H); None if there is none.

        Raises ModelError for a checkpoint that cannot be read, or lacks the tensor.
        """
        positions = self.spec.config.positions
        if not isinstance(positions, Buckets) or not positions.shared:
            return None
        headers = safetensors_files.headers(self.encoder)
        names = [name for name in headers if self.spec.rename(name) == ["bias_table"]]
        if not names:
            raise ModelError(f"{self.encoder}: the checkpoint lacks ['bias_table']")
        return safetensors_files.read(self.encoder, names[0])

    def checkpoints(self) -> list[Path]:
        """List the folders that hold weights: the encoder's, then those of the later modules."""
        later = [module for module in self.sentence.modules if not isinstance(module, Normalize)]
        paths = [self.path / module.path for module in later]
        return [self.encoder, *(path for path in paths if path != self.encoder)]

    def files(self) -> list[Path]:
        """List all files that are read: of weights, of the tokenizer, of options and prompts."""
        checkpoints = map(safetensors_files.files, self.checkpoints())
        weights = [file for files in checkpoints for file in files]
        options = [self.path / name for name in ("modules.json", CARD, METADATA)]
        options += [self.path / entry.path / "config.json" for entry in modules.entries(self.path)]
        options += [*options_file(self.encoder), *sparse_files(self.path, self.sentence.sparse)]
        return sorted({*weights, *loader.files(self.encoder), *filter(Path.is_file, options)})

    def fingerprint(self) -> str:
        """Hash everything that decides the vectors but precision: the files, and the pooling."""
        parts = [f"{file.relative_to(self.path)} {sha256(file)}" for file in self.files()]
        parts.append(repr(self.sentence.pooling))  # a setting may override the files
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _check_multi_vector(
    path: Path, multi_vector: MultiVector, spec: CheckpointSpec, pooling: str
) -> None:
    if pooling != AUTO:
        raise ModelError(f"{path}: a multi-vector model has no pooling: leave it {AUTO!r}")
    expansion = multi_vector.expansion
    # Its code lets tokens that are not attended to attend to nothing, and clears their vectors.
    if expansion and not expansion.attended and isinstance(spec.config.positions, Disentangled):
        raise ModelError(
            f"{path}: a DeBERTa without attention to the expansion of queries is not supported"
        )


def _classifier(
    path: Path, entries: Sequence[Entry], spec: CheckpointSpec, pooling: str
) -> Classifier | None:
    # A Pooling, from the files or from the operator, makes an embedder of a classifier's encoder.
    if len(entries) > 1 or pooling != AUTO or entries[0].kind == STATIC:
        return None
    return Classifier.read(path, entries[0].path, spec.config)
