"""Reads safetensors checkpoints under our own tensor names; never a pickle."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from models.checkpoint import safetensors_files
from models.config.blueprint import Blueprint
from models.config.encoder_config import EncoderConfig
from models.errors import ModelError
from models.positions.schemes import Buckets, Disentangled, Learned

Weights = dict[str, Tensor]

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def load(folder: Path, blueprint: Blueprint) -> Weights:
    """Read every tensor that the blueprint names, as float32.

    Matrices of layers are views of a mapping of the file of their own: once they are packed and
    nobody holds them, its pages go, while tables may stay in the other.

    Raises ModelError naming the tensor that is missing, unknown, quantised, not finite or of a
    wrong shape, or the file that is broken.
    """
    weights: Weights = {}
    table_alone = not blueprint.config.num_layers  # that of model2vec may hold integers

    def of_layer(name: str) -> bool:
        return any(ours.startswith("layers.") for ours in blueprint.rename(name))

    for name, tensor in tensors(folder, of_layer):
        if names := blueprint.rename(name):
            weights |= _parts(blueprint, names, float32(folder, name, tensor, table_alone))
    expected = blueprint.expected()
    if unknown := weights.keys() - expected:
        raise ModelError(f"{folder}: config.json knows no {sorted(unknown)[:4]}")
    if missing := expected - weights.keys():
        raise ModelError(f"{folder}: the checkpoint lacks {sorted(missing)[:4]}")
    weights = {name: _alone(name, tensor) for name, tensor in _fold(weights).items()}
    check(weights, blueprint.config)
    return weights


def check(weights: Weights, config: EncoderConfig) -> None:
    """Raises ModelError naming a tensor whose shape is not the one that the sizes ask for.

    Compiled code would read beyond its end.
    """
    for name, tensor in weights.items():
        expected = _shape(_kind(name), len(tensor), config)
        if tensor.shape != expected:
            found = tuple(tensor.shape)
            raise ModelError(f"{name} has the shape {found}; by config.json it is {expected}")


def tensors(
    folder: Path, apart: Callable[[str], bool] = lambda _: False
) -> Iterator[tuple[str, Tensor]]:
    """Name and tensor of everything in a folder's safetensors files.

    apart: of which names the tensors are in a second mapping of their file.
    """
    for path in safetensors_files.files(folder):
        try:
            with safe_open(path, framework="pt") as file, safe_open(path, framework="pt") as other:
                for name in file.keys():  # noqa: SIM118 - it is no mapping
                    yield name, (other if apart(name) else file).get_tensor(name)
        except SafetensorError as error:
            raise safetensors_files.broken(path, error) from None


def float32(folder: Path, name: str, tensor: Tensor, integers: bool = False) -> Tensor:
    """A checkpoint's tensor in float32.

    integers: whether it may hold integers, too.

    Raises ModelError for a quantised tensor, whose scale is not known, and for NaN or infinity.
    """
    if tensor.dtype not in _FLOATS and not integers:
        raise ModelError(f"{folder}: {name} is of type {tensor.dtype}; supported: {_FLOATS}")
    tensor = tensor.to(torch.float32)
    # Least and largest are NaN if one number is; several times as fast as asking each of them.
    if tensor.numel() and not torch.stack(torch.aminmax(tensor)).isfinite().all():
        raise ModelError(f"{folder}: {name} has NaN or infinity in it: fetch the model again")
    return tensor


def _parts(blueprint: Blueprint, names: list[str], tensor: Tensor) -> Weights:
    # A tensor of the file as ours: (out, in) matrices, each part by itself.
    kind = _kind(names[0])
    if kind.endswith("norm.weight"):
        tensor = tensor + blueprint.norm_shift
    if kind.endswith("bias"):  # of XLNet, with the heads apart as the matrices below
        tensor = tensor.flatten()
    if tensor.ndim > 2:
        tensor = tensor.flatten(1)
    if kind == "token_table":
        tensor = tensor[: len(tensor) - blueprint.spare_rows]
    if kind in blueprint.transposed:
        tensor = tensor.T
    return dict(zip(names, _split(blueprint, len(names), tensor), strict=True))


def _split(blueprint: Blueprint, count: int, tensor: Tensor) -> list[Tensor]:
    if count == 1:
        return [tensor.contiguous()]
    if not blueprint.by_head:
        return [part.contiguous() for part in tensor.tensor_split(count)]
    heads = tensor.view(-1, count, blueprint.config.head_size, *tensor.shape[1:])
    return [part.flatten(0, 1) for part in heads.unbind(1)]


def _alone(name: str, tensor: Tensor) -> Tensor:
    # A norm or bias that an encoder keeps would keep the whole mapping.
    return tensor.clone() if name.startswith("layers.") and tensor.ndim == 1 else tensor


def _fold(weights: Weights) -> Weights:
    # A table in which several tokens share a row becomes one with a row for each token.
    table = weights["token_table"]
    if (rows := weights.pop("token_rows", None)) is not None:
        table = table[rows.to(torch.int64)]
    if (scales := weights.pop("token_scales", None)) is not None:
        table = table * scales[:, None]
    return {**weights, "token_table": table}


def _kind(name: str) -> str:
    return re.sub(r"^layers\.\d+\.", "", name)


def _shape(kind: str, rows: int, config: EncoderConfig) -> tuple[int, ...]:
    width, inner, narrow = config.hidden_size, config.intermediate_size, config.embedding_size
    query, key = (n * config.head_size for n in (config.num_heads, config.num_kv_heads))
    offset = config.table.offset if isinstance(config.table, Learned) else 0
    span = config.positions.span if isinstance(config.positions, Disentangled) else 0
    buckets = config.positions.buckets if isinstance(config.positions, Buckets) else 0
    whole = {
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
    }
    if kind in whole:
        return whole[kind]
    name, _, part = kind.partition(".")
    if name in ("query_norm", "key_norm"):  # of all heads together, or of each by itself
        joined = query if name == "query_norm" else key
        return (joined if rows == joined else config.head_size,)
    shape = matrices.get(name.removeprefix("position_"), (query, width))
    if "norm" in name:
        return (width,)
    return shape if part == "weight" else shape[:1]
