"""Number of parameters of a model, and their memory in each precision."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from embedwell_models import families
from embedwell_models.checkpoint import safetensors_files, weights
from embedwell_models.checkpoint.formats import TensorHeader
from embedwell_models.checkpoint.tables import TABLE, is_part
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.families.family import Family
from embedwell_models.model_files.vector_modules import WithoutWeights, projection_module

_BITS = {"float32": 32, "float16": 16, "bfloat16": 16, "int8": 8, "int4": 4}  # of a parameter


@dataclass(frozen=True)
class Footprint:
    """Numbers of parameters, from the headers of the files.

    matrices: parameters of the layers' matrices, in the chosen precision. others: tables, norms,
    biases and the modules after the pooling, always in float32. stored: parameters of a table of
    word vectors, which stays in its file's format, with stored_bytes.
    """

    matrices: int
    others: int
    stored: int = 0
    stored_bytes: int = 0

    @classmethod
    def of(cls, description: ModelDescription) -> "Footprint":
        """Count the parameters of a model; raises ModelError for an unknown tensor."""
        sizes = list(_sizes(description))
        matrices = sum(size for size, is_matrix in sizes if is_matrix)
        others = sum(size for size, _ in sizes) - matrices
        return cls(matrices, others, *_stored(description))

    @property
    def parameters(self) -> int:
        """Number of loaded parameters."""
        return self.matrices + self.others + self.stored

    @property
    def memory(self) -> Mapping[str, int]:
        """Bytes of the weights in each precision."""
        same = self.others * 4 + self.stored_bytes
        return {name: self.matrices * bits // 8 + same for name, bits in _BITS.items()}


def _sizes(description: ModelDescription) -> Iterator[tuple[int, bool]]:
    # Size of each loaded tensor, and whether it is a matrix of the layers.
    encoder, *modules = description.checkpoints()
    images, family = description.images, families.named(description.spec.config.family)
    yield from _encoder_sizes(description.spec, weights.headers(encoder), family)
    for spec in _further_specs(description):
        yield from _encoder_sizes(spec, weights.headers(encoder), family)
    if images:
        headers = weights.headers(description.image_encoder)
        yield from _encoder_sizes(images.encoder, headers, family)
    if (projection := description.spec.token_projection) and not description.multi_vector:
        dense = projection_module("", description.spec.config.hidden_size, projection)
        yield sum(map(prod, dense.shapes.values())), False
    if description.spec.state_layers:
        yield description.spec.state_layers.size, True
    for module in description.recipe.modules:
        if not isinstance(module, WithoutWeights) and not module.has_own_file:
            yield sum(map(prod, module.shapes.values())), False
    for path in modules:
        if images and path == description.image_encoder:
            continue
        yield sum(prod(header.shape) for header in weights.headers(path).values()), False
    if images and images.projection:
        yield images.projection.width * images.encoder.config.hidden_size, False


def _further_specs(description: ModelDescription) -> Iterator[ModelSpec]:
    # Layers in the files of the encoder that are not the encoder's.
    if tokens := description.image_tokens:
        yield tokens.encoder
    if decoder := description.spec.decoder:
        yield decoder.model


def _encoder_sizes(
    spec: ModelSpec,
    headers: Mapping[str, TensorHeader],
    family: Family,
) -> Iterator[tuple[int, bool]]:
    config = spec.config
    if family.is_decoded_table:
        yield config.vocab_size * config.embedding_size, False
    for theirs, header in headers.items():
        for ours in spec.rename(theirs)[:1]:  # a fused tensor counts once
            if ours == TABLE and family.table is None:
                yield config.vocab_size * config.embedding_size, False
            elif not is_part(ours):
                matrix = ours.startswith("layers.") and ours.endswith(".weight")
                yield prod(header.shape), matrix and len(header.shape) > 1


def _stored(description: ModelDescription) -> tuple[int, int]:
    # Parameters and bytes of a table whose rows stay in the file's format.
    family = families.named(description.spec.config.family)
    if family.table is None or family.is_decoded_table:
        return 0, 0
    arrays = safetensors_files.map_folder(description.encoder).values()
    return sum(array.size for array in arrays), sum(array.nbytes for array in arrays)
