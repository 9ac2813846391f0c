"""Loading of safetensors checkpoints under our own tensor names."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import numpy as np

from embedwell_models.checkpoint import adapters, formats, safetensors_files, tables
from embedwell_models.checkpoint.formats import StoredTensor, TensorHeader
from embedwell_models.checkpoint.safetensors_files import not_finite, to_finite_float32
from embedwell_models.checkpoint.tables import (
    TABLE,
    Array,
    LayerMatrix,
    PlainTable,
    QuantizedMatrix,
    Stored,
    Table,
    decoded,
    is_part,
)
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.layer_spec import AttentionSpec, LayerSpec
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.errors import ModelError
from embedwell_models.positions.schemes import Buckets, Disentangled, Learned
from embedwell_models.vectors import Floats

Weights = Mapping[str, Floats]
"""Arrays of a checkpoint by our names."""

_HALF = (np.dtype("<u2"), np.dtype("<f2"))  # the bits of bfloat16, and float16
# Mask of the exponent, and the least one that is refused: infinity, and TOO_LARGE in bfloat16.
_EXPONENTS = ((0x7C00, 0x7C00), (0x7F80, 127 + 40 << 7))
_OTHER = "the weights and config.json are of two models: fetch both again"
_WITHOUT_NAME = "an export may have them without a name: give the original model"
_BLOCK = 1 << 18  # numbers that stay in a cache while they are checked


class StoredWeights(Weights):
    """Arrays of a checkpoint by our names, which become float32 whenever they are read.

    arrays: as they are stored; uint16 means the bits of bfloat16. So the memory holds one matrix as
    float32 at a time. as_in_file: whether no number of a mapped file was changed in memory.
    """

    def __init__(self, arrays: Mapping[str, Stored], *, as_in_file: bool = False) -> None:
        self._arrays, self._as_in_file = arrays, as_in_file

    def __getitem__(self, name: str) -> Floats:
        """Return an array as float32; no copy if it is stored so."""
        return decoded(self._arrays[name])

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def stored(self, name: str) -> Stored:
        """Return an array as it is stored; uint16 means the bits of bfloat16."""
        return self._arrays[name]

    def table(self, name: str) -> Table:
        """Return an array whose rows become float32 when they are read."""
        array = self._arrays[name]
        return array if isinstance(array, QuantizedMatrix) else PlainTable(array)

    def without(self, prefixes: tuple[str, ...], defaults: Mapping[str, Stored]) -> "StoredWeights":
        """Return the arrays whose names begin with no prefix. defaults: arrays of missing names."""
        arrays = {
            name: array
            for name, array in {**defaults, **self._arrays}.items()
            if not name.startswith(prefixes)
        }
        return StoredWeights(arrays, as_in_file=self._as_in_file)

    def release_pages(self) -> None:
        """Release the pages of mapped files that were read; they are read again when needed."""
        if self._as_in_file:
            safetensors_files.release_pages(self._arrays.values())


def load(folder: Path, spec: ModelSpec) -> StoredWeights:
    """Read every tensor of a spec under our names, with the chosen adapter added.

    Fused tensors are split, and stored parts of a table are decoded. The file is memory-mapped
    twice: the mapping with the layers, which is read, is freed when they are packed; the tables may
    stay mapped, and only the rows that are used are in memory.

    Raises ModelError for a file that cannot be read, and for a tensor that is missing, unknown,
    quantised, not finite or of a wrong shape. The message names the file or tensor.
    """
    expected = spec.expected()
    adapters.check_trained(folder, spec, expected)
    additions = adapters.read_additions(folder, spec, iterate_tensors(folder))
    static = not spec.config.num_layers  # only the table of such a model may hold integers
    weights: dict[str, Stored] = {}
    unknown: set[str] = set()
    for name, kept, freed in _iterate_mapped_twice(folder):
        names = spec.rename(name)
        unknown |= {name} if {*names} - expected else set()
        if not names or unknown:
            continue
        if static and kept.is_integer:
            array = kept.array
        else:
            array = _finite(folder, name, freed, computed="norm" in name)
            safetensors_files.release_pages([freed.array])  # of the check
            if (addition := additions.pop(tuple(names), None)) is not None:
                array = adapters.add(folder, name, array, addition)
            if not names[0].startswith("layers."):
                array = _readable_by_rows(array, freed, kept)
        weights |= _parts(spec, names, array)
    if unknown:
        raise ModelError(
            f"{folder}: config.json implies no tensors {sorted(unknown)[:4]}; {_OTHER}"
        )
    if additions:
        raise ModelError(f"{folder}: the checkpoint lacks {next(iter(additions))} of the adapter")
    if missing := spec.their_names(expected - weights.keys()):
        exported = safetensors_files.format_name(folder) == "ONNX"
        reason = _WITHOUT_NAME if exported else _OTHER
        raise ModelError(f"{folder}: the checkpoint lacks {missing[:4]}; {reason}")
    plain = {name: _without_mapping(name, array) for name, array in _fold(weights, spec).items()}
    check_shapes(folder, plain, spec)
    return StoredWeights(plain, as_in_file=not spec.placeholders)


def shapes_of(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Return the shapes of our tensors of a spec, as far as its config states them."""
    return {name: spec.shapes.get(name) or _shape(name, 0, spec.config) for name in spec.expected()}


def check_shapes(folder: Path, weights: Mapping[str, Stored], spec: ModelSpec) -> None:
    """Raise ModelError for a tensor whose shape contradicts the config.

    The kernels do not check bounds, so this check protects them.
    """
    for name, array in weights.items():
        expected = spec.shapes.get(name) or _shape(name, len(array), spec.config)
        if array.shape != expected:
            raise ModelError(
                f"{folder}: {spec.describe(name)} has the shape {array.shape}; config.json "
                f"requires {expected}; {_OTHER}"
            )


def iterate_tensors(folder: Path) -> Iterator[tuple[str, StoredTensor]]:
    """Yield name and value of every tensor in a folder's weight files, with its adapter applied.

    A quantised weight is one tensor. Raises ModelError for a file that cannot be read.
    """
    adapter = adapters.read_own(folder)
    tensors = _stored_tensors(folder)
    yield from tensors if adapter is None else adapter.adapt(dict(tensors))


def _stored_tensors(folder: Path) -> Iterator[tuple[str, StoredTensor]]:
    quantization = formats.quantization(folder)
    files = map(safetensors_files.map_file, safetensors_files.require_weight_files(folder))
    stored = chain.from_iterable(files)
    yield from stored if quantization is None else quantization.tensors(folder, stored)


def headers(folder: Path) -> Mapping[str, TensorHeader]:
    """Return shape and type of the tensors that `iterate_tensors` yields; raises ModelError."""
    if formats.quantization(folder) is None and adapters.read_own(folder) is None:
        return safetensors_files.headers(folder)
    tensors = iterate_tensors(folder)
    return {name: TensorHeader(tensor.array.shape, tensor.dtype) for name, tensor in tensors}


def _iterate_mapped_twice(folder: Path) -> Iterator[tuple[str, StoredTensor, StoredTensor]]:
    both = zip(iterate_tensors(folder), iterate_tensors(folder), strict=True)
    for (name, first), (_, second) in both:
        yield name, first, second


def read_file(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Floats]:
    """Read one file as float32; raises ModelError unless its tensors have exactly these shapes."""
    tensors = safetensors_files.map_file(path)
    read = {name: to_finite_float32(path, name, tensor) for name, tensor in tensors}
    actual = {name: array.shape for name, array in read.items()}
    if actual != dict(shapes):
        raise ModelError(f"{path} has the shapes {actual}; config.json requires {dict(shapes)}")
    return read


def read_others(
    folder: Path,
    shapes: Mapping[str, tuple[int, ...]],
    is_one: Callable[[str], bool],
    prefix: str = "",
) -> dict[str, Floats]:
    """Read the tensors of layers after an encoder as float32, by their names without a prefix.

    is_one: whether a name, with the prefix, is that of such a tensor. Raises ModelError for a
    tensor that is missing, of another shape, or not among the shapes.
    """
    read = {
        name.removeprefix(prefix): to_finite_float32(folder, name, tensor)
        for name, tensor in iterate_tensors(folder)
        if is_one(name)
    }
    if missing := [name for name in shapes if name not in read]:
        raise ModelError(f"{folder}: the checkpoint lacks {prefix}{missing[0]}")
    for name, array in read.items():
        if name not in shapes:
            raise ModelError(f"{folder}: config.json implies no {prefix}{name}")
        if array.shape != shapes[name]:
            raise ModelError(
                f"{folder}: {prefix}{name} has the shape {array.shape}; config.json requires "
                f"{shapes[name]}"
            )
    return read


def _finite(folder: Path, name: str, tensor: StoredTensor, *, computed: bool) -> Stored:
    # Returns a matrix in half precision or quantised as it is stored, unless it is computed with;
    # else float32.
    if isinstance(tensor.array, QuantizedMatrix):
        if not tensor.array.is_finite():
            raise not_finite(folder, name)
        return tensor.to_float32() if computed else tensor.array
    if computed or tensor.array.dtype not in _HALF or tensor.array.ndim < 2:
        return to_finite_float32(folder, name, tensor)
    bits, (mask, too_large) = tensor.array.view("<u2").ravel(), _EXPONENTS[tensor.dtype == "BF16"]
    for start in range(0, len(bits), _BLOCK):
        if ((bits[start : start + _BLOCK] & mask) >= too_large).any():
            raise not_finite(folder, name)
    return tensor.array


def _readable_by_rows(array: Stored, freed: StoredTensor, kept: StoredTensor) -> Stored:
    # A table is read row by row, which only blocks can decode.
    if isinstance(array, LayerMatrix):
        return array.to_float32()
    return kept.array if array is freed.array else array


def _parts(spec: ModelSpec, names: list[str], tensor: Stored) -> dict[str, Stored]:
    # Split a tensor of the file into our tensors, with matrices as (out, in).
    kind = _kind(names[0])
    if isinstance(tensor, QuantizedMatrix):
        if _splits_by_rows(spec, names):
            return dict(zip(names, _split_rows(spec, names, tensor), strict=True))
        tensor = tensor.to_float32()
    if kind.endswith("norm.weight"):
        tensor = tensor + np.float32(spec.norm_shift)
    if kind.endswith("bias"):  # in XLNet, biases have an axis of heads; so have the matrices below
        tensor = tensor.reshape(-1)
    if kind in ("token_table", "position_table"):  # a lone class token has one axis, others three
        tensor = tensor.reshape(-1, tensor.shape[-1])
    if tensor.ndim > 2 and not is_part(kind):
        tensor = tensor.reshape(len(tensor), -1)
    if kind == "token_table":
        tensor = tensor[: len(tensor) - spec.spare_rows]
        for id, other in spec.placeholders.items():
            tensor[id] = tensor[other]  # changes the copy in memory, not the mapped file
    if kind in spec.transposed:
        tensor = tensor.T
    return dict(zip(names, _split(spec, names, tensor), strict=True))


def _split(spec: ModelSpec, names: list[str], tensor: Array) -> list[Array]:
    count = len(names)
    if count == 1:
        return [np.ascontiguousarray(tensor)]
    if not (spec.by_head and _kind(names[0]).startswith("query.")):
        parts = np.array_split(tensor, _borders(spec.config, names))
        return [np.ascontiguousarray(part) for part in parts]
    size = _attention(spec.config, names[0]).head_size
    heads = tensor.reshape(-1, count, size, *tensor.shape[1:])
    return [heads[:, index].reshape(-1, *tensor.shape[1:]) for index in range(count)]


def _splits_by_rows(spec: ModelSpec, names: list[str]) -> bool:
    # Whether our tensors are consecutive rows of the file's, without any change.
    kind = _kind(names[0])
    changed = kind in spec.transposed or spec.by_head or kind.endswith("norm.weight")
    return not changed and not (kind == TABLE and (spec.spare_rows or spec.placeholders))


def _split_rows(
    spec: ModelSpec, names: list[str], matrix: QuantizedMatrix
) -> list[QuantizedMatrix]:
    borders = _borders(spec.config, names) if len(names) > 1 else []
    if isinstance(borders, int):
        borders = [len(matrix) // borders * part for part in range(1, borders)]
    ends = [*borders, len(matrix)]
    return [matrix.rows(start, end) for start, end in zip([0, *borders], ends, strict=True)]


def _borders(config: EncoderConfig, names: list[str]) -> int | list[int]:
    # Row indices at which a fused tensor is split; a single number means equal parts.
    if [_kind(name).partition(".")[0] for name in names] != ["query", "key", "value"]:
        return len(names)
    attention = _attention(config, names[0])
    query, key = (n * attention.head_size for n in (attention.heads, attention.kv_heads))
    return [query, query + key]


def _without_mapping(name: str, array: Stored) -> Stored:
    # A view of a norm or bias would keep the whole mapping of the layers in memory.
    if isinstance(array, QuantizedMatrix) or array.ndim > 1 or not name.startswith("layers."):
        return array
    return array.copy()


def _fold(weights: Mapping[str, Stored], spec: ModelSpec) -> Mapping[str, Stored]:
    # Decodes a table of integers, or of several parts, to one float32 row for each token.
    parts: dict[str, Array] = {}
    for name, part in weights.items():
        if isinstance(part, QuantizedMatrix):
            return weights
        parts |= {name: part} if is_part(name) else {}
    floats = (np.dtype("<f4"), *_HALF)
    if all(name == TABLE and part.dtype in floats for name, part in parts.items()):
        return weights
    tables.check(parts, spec.tensors)
    others = {name: part for name, part in weights.items() if name not in parts}
    return {**others, TABLE: tables.decode(tables.build(parts))}


def _kind(name: str) -> str:
    return re.sub(r"^layers\.\d+\.", "", name)


def _layer(config: EncoderConfig, name: str) -> LayerSpec:
    # The first layer that has a tensor; an empty layer for a tensor outside all layers.
    number = re.match(r"layers\.(\d+)\.", name)
    layers = (each for each in config.layers if number and each.weights == int(number.group(1)))
    return next(layers, LayerSpec(weights=None))


def _attention(config: EncoderConfig, name: str) -> AttentionSpec:
    mixer = _layer(config, name).mixer
    return mixer if isinstance(mixer, AttentionSpec) else config.attention


def _shape(name: str, rows: int, config: EncoderConfig) -> tuple[int, ...]:
    width, narrow = config.hidden_size, config.embedding_size
    kind, attention = _kind(name), _attention(config, name)
    query, key = (n * attention.head_size for n in (attention.heads, attention.kv_heads))
    offset = config.input_positions.offset if isinstance(config.input_positions, Learned) else 0
    positions = attention.positions
    span = positions.span if isinstance(positions, Disentangled) else 0
    buckets = positions.buckets if isinstance(positions, Buckets) else 0
    shapes = {
        "token_table": (config.vocab_size, narrow),
        "position_table": (config.max_positions + offset, narrow),
        "segment_table": (rows, narrow),
        "bias_table": (buckets, attention.heads),
        "layer_bias_table": (buckets, attention.heads),
        "relative_table": (2 * span, width),
        "norm.weight": (narrow,),
        "norm.bias": (narrow,),
        "position_bias": (query,),
    }
    matrices = {"project": (width, narrow), **_layer(config, name).matrices(width)}
    if kind in shapes:
        return shapes[kind]
    name, _, part = kind.partition(".")
    if name in ("query_norm", "key_norm"):  # one norm over all heads, or one for each head
        all_heads = query if name == "query_norm" else key
        return (all_heads if rows == all_heads else attention.head_size,)
    if name == "inner_norm":
        return matrices["down"][1:]
    shape = matrices.get(name.removeprefix("position_"), (query, width))
    if "norm" in name:
        return (width,)
    return shape if part == "weight" else shape[:1]
