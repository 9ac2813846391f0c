"""Number of parameters of a model, and the memory that they take in each precision."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from models.checkpoint import safetensors_files
from models.config.checkpoint_spec import CheckpointSpec
from models.folder import Folder
from models.sentence_transformers.vector_modules import WithoutWeights

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}  # of a parameter
_FACTORS = ("token_rows", "token_scales")  # of a compressed token table, not counted apart


@dataclass(frozen=True)
class Footprint:
    """Numbers of parameters, from the headers of the files alone.

    matrices: of the layers, in the chosen precision. others: tables, norms, biases and the modules
    after the pooling, always in float32.
    """

    matrices: int
    others: int

    @classmethod
    def of(cls, folder: Folder) -> "Footprint":
        """Count the parameters of a model; raises ModelError for an unknown tensor."""
        sizes = list(_sizes(folder))
        matrices = sum(size for size, is_matrix in sizes if is_matrix)
        return cls(matrices, sum(size for size, _ in sizes) - matrices)

    @property
    def parameters(self) -> int:
        return self.matrices + self.others

    @property
    def memory(self) -> Mapping[str, int]:
        """Bytes of the weights in each precision."""
        return {name: self.matrices * size + self.others * 4 for name, size in _BYTES.items()}


def _sizes(folder: Folder) -> Iterator[tuple[int, bool]]:
    # The size of each tensor that is loaded, and whether it is a matrix of the layers.
    encoder, *modules = folder.checkpoints()
    headers, images = safetensors_files.headers(encoder), folder.images
    for spec in [folder.spec, *([images.encoder] if images else [])]:
        yield from _encoder_sizes(spec, headers)
    for module in folder.sentence.modules:
        if not isinstance(module, WithoutWeights) and not module.has_own_file:
            yield sum(map(prod, module.shapes.values())), False
    for path in modules:
        yield sum(prod(header.shape) for header in safetensors_files.headers(path).values()), False
    if images and images.projection:
        yield images.projection.width * images.encoder.config.hidden_size, False


def _encoder_sizes(
    spec: CheckpointSpec, headers: Mapping[str, safetensors_files.TensorHeader]
) -> Iterator[tuple[int, bool]]:
    config = spec.config
    for theirs, header in headers.items():
        for ours in spec.rename(theirs)[:1]:  # parts of one tensor count once
            if ours == "token_table":
                yield config.vocab_size * config.embedding_size, False
            elif ours not in _FACTORS:
                matrix = ours.startswith("layers.") and ours.endswith(".weight")
                yield prod(header.shape), matrix and len(header.shape) > 1
