"""Reads safetensors checkpoints under our own tensor names; never a pickle."""

import re
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from models.config import EncoderConfig
from models.errors import ModelError
from models.families import Family

Weights = dict[str, Tensor]


def load(folder: Path, family: Family, num_layers: int) -> Weights:
    """Read every tensor the family names, as float32.

    Raises ModelError naming the tensor that is missing or unknown, or the file that is broken.
    """
    weights: Weights = {}
    for name, tensor in _tensors(folder):
        ours = rename(name, family)
        if ours is not None:
            weights[ours] = tensor.to(torch.float32)
    expected = _expected(family, num_layers)
    if unknown := weights.keys() - expected:
        raise ModelError(f"{folder}: config.json knows no {sorted(unknown)[:4]}")
    if missing := expected - weights.keys():
        raise ModelError(f"{folder}: the checkpoint lacks {sorted(missing)[:4]}")
    return weights


def check(weights: Weights, config: EncoderConfig) -> None:
    """Raises ModelError naming a tensor whose shape is not the one that the sizes ask for.

    Compiled code would read beyond its end.
    """
    width, inner = config.hidden_size, config.intermediate_size
    known = {
        "token_table": (config.vocab_size, width),
        "position_table": (config.max_positions, width),
        "segment_table": (len(weights["segment_table"]), width),
        "up.weight": (inner, width),
        "up.bias": (inner,),
        "down.weight": (width, inner),
    }
    for name, tensor in weights.items():
        kind = re.sub(r"^layers\.\d+\.", "", name)
        square = kind.endswith(".weight") and "norm" not in kind
        expected = known.get(kind, (width, width) if square else (width,))
        if tensor.shape != expected:
            found = tuple(tensor.shape)
            raise ModelError(f"{name} has the shape {found}; by config.json it is {expected}")


def rename(name: str, family: Family) -> str | None:
    """Our name for a checkpoint's tensor, or None for one that inference does not need."""
    # Checkpoints converted from TensorFlow call the parameters of a norm gamma and beta.
    plain = re.sub("gamma$", "weight", re.sub("beta$", "bias", name.removeprefix(family.prefix)))
    layer = re.search(r"\.(\d+)\.", plain)
    key = re.sub(r"\.\d+\.", ".{}.", plain, count=1)
    if key in family.tensors:
        return family.tensors[key].format(layer.group(1) if layer else "")
    if any(re.fullmatch(pattern.replace("*", ".*"), plain) for pattern in family.optional):
        return None
    raise ModelError(f"unknown tensor {name!r} in the checkpoint")


def files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint, one or several shards, in order."""
    found = sorted([*folder.glob("model.safetensors"), *folder.glob("model-*-of-*.safetensors")])
    if not found:
        pickled = any(folder.glob("pytorch_model*.bin"))
        hint = "; convert pytorch_model.bin to safetensors: a pickle is never loaded"
        raise ModelError(f"{folder} has no model.safetensors{hint if pickled else ''}")
    return found


def _tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    for path in files(folder):
        try:
            with safe_open(path, framework="pt") as checkpoint:
                for name in checkpoint.keys():  # noqa: SIM118 - it is no mapping
                    yield name, checkpoint.get_tensor(name)
        except SafetensorError as error:
            raise ModelError(f"{path} cannot be read: {error}; fetch the model again") from None


def _expected(family: Family, num_layers: int) -> set[str]:
    return {ours.format(i) for ours in family.tensors.values() for i in range(num_layers)}
