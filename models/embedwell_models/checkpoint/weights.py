"""Loading of safetensors checkpoints under our own tensor names."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.config.checkpoint_spec import CheckpointSpec
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.errors import ModelError
from embedwell_models.positions.schemes import Buckets, Disentangled, Learned
from embedwell_models.tables import stored
from embedwell_models.tables.names import TABLE, is_part

Weights = dict[str, Tensor]

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def load(folder: Path, spec: CheckpointSpec) -> Weights:
    """Read every tensor of a spec as float32 under our names, with the chosen adapter added.

    Fused tensors are split, and stored parts of a table are decoded. The file is memory-mapped
    twice: the mapping with the layers is freed when they are packed; the tables may stay mapped.

    Raises ModelError for a file that cannot be read, and for a tensor that is missing, unknown,
    quantised, not finite or of a wrong shape. The message names the file or tensor.
    """
    weights: Weights = {}
    static = not spec.config.num_layers  # only the table of such a model may hold integers

    def is_of_layer(name: str) -> bool:
        return any(ours.startswith("layers.") for ours in spec.rename(name))

    additions = _additions(folder, spec)
    for name, tensor in iterate_tensors(folder, is_of_layer):
        if names := spec.rename(name):
            plain = to_finite_float32(folder, name, tensor, static)
            addition = additions.pop(name, None)
            weights |= _parts(spec, names, plain if addition is None else plain + addition)
    expected = spec.expected()
    if unknown := weights.keys() - expected:
        raise ModelError(f"{folder}: config.json implies no tensors {sorted(unknown)[:4]}")
    if missing := expected - weights.keys():
        raise ModelError(f"{folder}: the checkpoint lacks {sorted(missing)[:4]}")
    weights = {
        name: _without_mapping(name, tensor) for name, tensor in _fold(weights, spec).items()
    }
    check_shapes(weights, spec.config, spec.shapes)
    return weights


def check_shapes(
    weights: Weights, config: EncoderConfig, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> None:
    """Raise ModelError for a tensor whose shape contradicts the config.

    The kernels do not check bounds, so this check protects them. shapes: the shapes of tensors that
    do not follow from the config.
    """
    for name, tensor in weights.items():
        expected = (shapes or {}).get(name) or _shape(name, len(tensor), config)
        if tensor.shape != expected:
            shape = tuple(tensor.shape)
            raise ModelError(f"{name} has the shape {shape}; config.json requires {expected}")


def iterate_tensors(
    folder: Path, in_second_mapping: Callable[[str], bool] = lambda _: False
) -> Iterator[tuple[str, Tensor]]:
    """Yield name and value of every tensor in a folder's safetensors files.

    in_second_mapping: whether to take the tensor of a name from a second memory mapping.
    """
    for path in safetensors_files.require_weight_files(folder):
        try:
            with safe_open(path, framework="pt") as file, safe_open(path, framework="pt") as other:
                for name in file.keys():  # noqa: SIM118 - not a mapping
                    yield name, (other if in_second_mapping(name) else file).get_tensor(name)
        except SafetensorError as error:
            raise safetensors_files.unreadable_error(path, error) from None


def read_file(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> Weights:
    """Read one file as float32; raises ModelError unless its tensors have exactly these shapes."""
    try:
        with safe_open(path, framework="pt") as file:
            read = {
                name: to_finite_float32(path, name, file.get_tensor(name))
                for name in file.keys()  # noqa: SIM118 - not a mapping
            }
    except (OSError, SafetensorError) as error:
        raise safetensors_files.unreadable_error(path, error) from None
    actual = {name: tuple(tensor.shape) for name, tensor in read.items()}
    if actual != dict(shapes):
        raise ModelError(f"{path} has the shapes {actual}; config.json requires {dict(shapes)}")
    return read


def to_finite_float32(folder: Path, name: str, tensor: Tensor, integers: bool = False) -> Tensor:
    """Convert a checkpoint's tensor to float32. integers: whether integer tensors stay as they are.

    Raises ModelError for a quantised tensor, whose scale is unknown, and for NaN or infinity.
    """
    if tensor.dtype not in _FLOATS:
        if integers:
            return tensor
        raise ModelError(f"{folder}: {name} is of type {tensor.dtype}; supported: {_FLOATS}")
    tensor = tensor.to(torch.float32)
    # Minimum and maximum are NaN if any value is NaN. This is faster than isfinite on all values.
    if tensor.numel() and not torch.stack(torch.aminmax(tensor)).isfinite().all():
        raise ModelError(f"{folder}: {name} has NaN or infinity; fetch the model again")
    return tensor


def _additions(folder: Path, spec: CheckpointSpec) -> Weights:
    # What the chosen adapter adds to matrices, by the names of the matrices in the checkpoint.
    adapters = spec.adapters
    if adapters is None or adapters.chosen is None:
        return {}
    factors: dict[str, Weights] = {}
    for name, tensor in iterate_tensors(folder):
        matrix, _, factor = name.rpartition(".0.lora_")
        if not matrix or not spec.rename(f"{matrix}.original"):
            continue
        if len(tensor) != len(adapters.names):
            raise ModelError(
                f"{folder}: {name} has {len(tensor)} parts for the adapters {adapters.names}"
            )
        part = to_finite_float32(folder, name, tensor[adapters.chosen])
        factors.setdefault(f"{matrix}.original", {})[factor] = part
    additions = {}
    for name, pair in factors.items():
        is_table = spec.rename(name)[0].endswith("_table")  # the rows of a table are inputs
        left, right = (pair["A"], pair["B"]) if is_table else (pair["B"], pair["A"])
        additions[name] = left @ right * adapters.scale
    return additions


def _parts(spec: CheckpointSpec, names: list[str], tensor: Tensor) -> Weights:
    # Split a tensor of the file into our tensors, with matrices as (out, in).
    kind = _kind(names[0])
    if kind.endswith("norm.weight"):
        tensor = tensor + spec.norm_shift
    if kind.endswith("bias"):  # in XLNet, biases have an axis of heads; so have the matrices below
        tensor = tensor.flatten()
    if tensor.ndim > 2 and not is_part(kind):
        tensor = tensor.flatten(1)
    if kind == "token_table":
        tensor = tensor.view(-1, tensor.shape[-1])  # a lone class token has one axis
        tensor = tensor[: len(tensor) - spec.spare_rows]
        for id, other in spec.placeholders.items():
            tensor[id] = tensor[other]  # changes the copy in memory, not the mapped file
    if kind in spec.transposed:
        tensor = tensor.T
    return dict(zip(names, _split(spec, names, tensor), strict=True))


def _split(spec: CheckpointSpec, names: list[str], tensor: Tensor) -> list[Tensor]:
    count = len(names)
    if count == 1:
        return [tensor.contiguous()]
    if not (spec.by_head and _kind(names[0]).startswith("query.")):
        return [part.contiguous() for part in tensor.tensor_split(_borders(spec.config, names))]
    heads = tensor.view(-1, count, spec.config.head_size, *tensor.shape[1:])
    return [part.flatten(0, 1) for part in heads.unbind(1)]


def _borders(config: EncoderConfig, names: list[str]) -> int | tuple[int, ...]:
    # Row indices at which a fused tensor is split; a single number means equal parts.
    if [_kind(name).partition(".")[0] for name in names] != ["query", "key", "value"]:
        return len(names)
    query, key = (n * config.head_size for n in (config.num_heads, config.num_kv_heads))
    return query, query + key


def _without_mapping(name: str, tensor: Tensor) -> Tensor:
    # A view of a norm or bias would keep the whole mapping of the layers in memory.
    return tensor.clone() if name.startswith("layers.") and tensor.ndim == 1 else tensor


def _fold(weights: Weights, spec: CheckpointSpec) -> Weights:
    # Decodes a table of integers, or of several parts, to one float32 row for each token.
    parts = {name: part for name, part in weights.items() if is_part(name)}
    if all(name == TABLE and part.is_floating_point() for name, part in parts.items()):
        return weights
    arrays = {name: part.numpy() for name, part in parts.items()}
    stored.check(arrays, spec.tensors)
    others = {name: part for name, part in weights.items() if name not in parts}
    return {**others, TABLE: torch.from_numpy(stored.decode(stored.build(arrays)))}


def _kind(name: str) -> str:
    return re.sub(r"^layers\.\d+\.", "", name)


def _layer(name: str) -> int:
    layer = re.match(r"layers\.(\d+)\.", name)
    return int(layer.group(1)) if layer else 0


def _shape(name: str, rows: int, config: EncoderConfig) -> tuple[int, ...]:
    width, inner, narrow = config.hidden_size, config.intermediate_size, config.embedding_size
    kind, heads = _kind(name), config.heads(_layer(name))
    query, key = heads.count * heads.size, heads.kv_count * heads.size
    offset = config.input_positions.offset if isinstance(config.input_positions, Learned) else 0
    span = config.positions.span if isinstance(config.positions, Disentangled) else 0
    buckets = config.positions.buckets if isinstance(config.positions, Buckets) else 0
    shapes = {
        "token_table": (config.vocab_size, narrow),
        "position_table": (config.max_positions + offset, narrow),
        "segment_table": (rows, narrow),
        "bias_table": (buckets, config.num_heads),
        "layer_bias_table": (buckets, config.num_heads),
        "relative_table": (2 * span, width),
        "norm.weight": (narrow,),
        "norm.bias": (narrow,),
        "position_bias": (query,),
    }
    matrices = {
        "query": (query, width),
        "key": (key, width),
        "value": (key, width),
        "output": (width, query),
        "gate": (inner, width),
        "up": (inner, width),
        "down": (width, inner),
        "project": (width, narrow),
        "router": (config.experts, width),
        "experts_up": (config.experts * inner, width),
        "experts_down": (config.experts * inner, width),
        "experts": (width, inner),
        "convolution_input": (3 * width, width),
        "convolution": (width, config.convolution_width),
        "convolution_output": (width, width),
    }
    if kind in shapes:
        return shapes[kind]
    name, _, part = kind.partition(".")
    if name in ("query_norm", "key_norm"):  # one norm over all heads, or one for each head
        all_heads = query if name == "query_norm" else key
        return (all_heads if rows == all_heads else heads.size,)
    shape = matrices.get(name.removeprefix("position_"), (query, width))
    if "norm" in name:
        return (width,)
    return shape if part == "weight" else shape[:1]
