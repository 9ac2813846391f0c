"""The safetensors files of a checkpoint: which they are, and what they say, without torch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from models.config.json_config import JsonConfig
from models.errors import ModelError
from models.vectors import Floats

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


@dataclass(frozen=True)
class Header:
    """Shape and type of a tensor in a file."""

    shape: tuple[int, ...]
    dtype: str


def files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint, one or several shards, in order.

    Raises ModelError where there are none, telling what else is there.
    """
    shards = safetensors(folder)
    if not shards:
        raise ModelError(_without_weights(folder))
    return shards


def safetensors(folder: Path) -> list[Path]:
    """The same, none where there are none; as transformers, an index says which are the shards.

    Raises ModelError for a shard that is missing.
    """
    if (whole := folder / "model.safetensors").is_file():
        return [whole]
    index = JsonConfig.optional(folder / "model.safetensors.index.json")
    if "weight_map" not in index:
        return sorted(folder.glob("model-*-of-*.safetensors"))
    shards = sorted({*index.get("weight_map", {}).values()})
    missing = [name for name in shards if Path(name).name != name or not (folder / name).is_file()]
    if missing:
        raise ModelError(f"{index.path}: the checkpoint lacks {missing[:4]} beside it")
    return [folder / name for name in shards]


def pickles(folder: Path) -> list[Path]:
    """The files of a checkpoint that torch.save wrote, one or several shards, in order."""
    whole = folder / "pytorch_model.bin"
    return [whole] if whole.is_file() else sorted(folder.glob("pytorch_model-*-of-*.bin"))


def _without_weights(folder: Path) -> str:
    if saved := pickles(folder):
        return (
            f"{folder} has no model.safetensors, and {saved[0].name} is a pickle, which the server "
            "never opens: `embedding-service convert MODEL` makes safetensors of it, once"
        )
    others = sorted(path.name for path in folder.glob("*.safetensors"))
    if others:
        return (
            f"{folder} has no model.safetensors, and no model.safetensors.index.json that names "
            f"{others[:4]} as its shards: rename a single file, or add the index"
        )
    return f"{folder} has no model.safetensors"


def headers(folder: Path) -> Mapping[str, Header]:
    """The headers of a checkpoint's tensors, by name; no tensor is read."""
    found = {}
    for path in files(folder):
        try:
            with safe_open(path, framework="numpy") as checkpoint:
                for name in checkpoint.keys():  # noqa: SIM118 - it is no mapping
                    part = checkpoint.get_slice(name)
                    found[name] = Header(tuple(part.get_shape()), part.get_dtype())
        except SafetensorError as error:
            raise broken(path, error) from None
    return found


def read(folder: Path, name: str) -> Floats:
    """One tensor, by the name that `headers` has, as float32.

    torch is not needed; safetensors needs it for bfloat16, of which numpy knows nothing.
    Raises ModelError for a type that holds no floating-point numbers.
    """
    path = next(path for path in files(folder) if name in _names(path))
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        about = json.loads(file.read(size))[name]
        start, stop = about["data_offsets"]
        file.seek(start, 1)
        if about["dtype"] not in _DTYPES:
            raise ModelError(f"{name} is of type {about['dtype']}; supported: {[*_DTYPES]}")
        values = np.frombuffer(file.read(stop - start), _DTYPES[about["dtype"]])
    if about["dtype"] == "BF16":  # the upper half of a float32
        values = (values.astype("<u4") << 16).view("<f4")
    found: Floats = values.astype(np.float32).reshape(about["shape"])
    return found


def _names(path: Path) -> list[str]:
    with safe_open(path, framework="numpy") as checkpoint:
        return list(checkpoint.keys())


def broken(path: Path, error: SafetensorError) -> ModelError:
    """The error for a file that cannot be read."""
    return ModelError(f"{path} cannot be read: {error}; fetch the model again")
