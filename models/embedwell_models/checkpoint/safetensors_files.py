"""Access to the safetensors files of a checkpoint, without torch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_METADATA = "__metadata__"
_INTEGERS = {"I8": "i1", "U8": "u1", "I32": "<i4", "I64": "<i8", "U64": "<u8"}


@dataclass(frozen=True)
class TensorHeader:
    """Shape and type of a tensor, from the header of its file."""

    shape: tuple[int, ...]
    dtype: str


def require_weight_files(folder: Path) -> list[Path]:
    """Return the files that `weight_files` returns; raises ModelError if there are none.

    The message names weights in other formats, if there are any.
    """
    shards = weight_files(folder)
    if not shards:
        raise ModelError(_without_weights(folder))
    return shards


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files (shards) of a checkpoint in order; the list may be empty.

    The index, if there is one, names the shards. Raises ModelError for a shard that is missing.
    """
    if (single := folder / "model.safetensors").is_file():
        return [single]
    index = JsonConfig.optional(folder / "model.safetensors.index.json")
    if "weight_map" not in index:
        return sorted(folder.glob("model-*-of-*.safetensors"))
    shards = sorted({*index.get("weight_map", {}).values()})
    missing = [name for name in shards if Path(name).name != name or not (folder / name).is_file()]
    if missing:
        raise ModelError(f"{index.path}: the checkpoint lacks {missing[:4]}; fetch the model again")
    return [folder / name for name in shards]


def pickles(folder: Path) -> list[Path]:
    """Return the pickle files (shards) of a checkpoint in order."""
    single = folder / "pytorch_model.bin"
    return [single] if single.is_file() else sorted(folder.glob("pytorch_model-*-of-*.bin"))


def _without_weights(folder: Path) -> str:
    if saved := pickles(folder):
        return (
            f"{folder} has no model.safetensors, and {saved[0].name} is a pickle, which the server "
            "never opens: `embedwell convert MODEL` makes safetensors of it, once"
        )
    others = sorted(path.name for path in folder.glob("*.safetensors"))
    if others:
        return (
            f"{folder} has no model.safetensors, and no model.safetensors.index.json that names "
            f"{others[:4]} as its shards: rename a single file, or add the index"
        )
    return f"{folder} has no model.safetensors"


def headers(folder: Path) -> Mapping[str, TensorHeader]:
    """Return shape and type of a checkpoint's tensors by name, from the headers of the files."""
    headers = {}
    for path in require_weight_files(folder):
        try:
            with safe_open(path, framework="numpy") as checkpoint:
                for name in checkpoint.keys():  # noqa: SIM118 - not a mapping
                    part = checkpoint.get_slice(name)
                    headers[name] = TensorHeader(tuple(part.get_shape()), part.get_dtype())
        except SafetensorError as error:
            raise unreadable_error(path, error) from None
    return headers


def read_tensor(folder: Path, name: str) -> Floats:
    """Read one tensor as float32, by its name in `headers`.

    safetensors cannot read bfloat16 without torch, so this function parses the file itself. Raises
    ModelError if the tensor does not hold floating-point numbers.
    """
    path = next(path for path in require_weight_files(folder) if name in _names(path))
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))[name]
        start, stop = header["data_offsets"]
        file.seek(start, 1)
        if header["dtype"] not in _DTYPES:
            raise ModelError(f"{name} is of type {header['dtype']}; supported: {[*_DTYPES]}")
        values = np.frombuffer(file.read(stop - start), _DTYPES[header["dtype"]])
    if header["dtype"] == "BF16":  # the upper half of a float32
        values = (values.astype("<u4") << 16).view("<f4")
    tensor: Floats = values.astype(np.float32).reshape(header["shape"])
    return tensor


def map_arrays(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    """Map the arrays of one file into memory, read-only, so that processes share its pages.

    bfloat16 becomes unsigned integers. Raises ModelError for a file that cannot be read.
    """
    header, start = _header(path)
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for name, part in header.items():
        if name == _METADATA:
            continue
        dtype = {**_DTYPES, **_INTEGERS}.get(part["dtype"])
        if dtype is None:
            raise ModelError(f"{path}: {name} is of type {part['dtype']}")
        shape, offset = tuple(part["shape"]), start + part["data_offsets"][0]
        empty = 0 in shape
        arrays[name] = (
            np.empty(shape, dtype) if empty else np.memmap(path, dtype, "r", offset, shape)
        )
    return arrays


def map_folder(folder: Path) -> dict[str, npt.NDArray[np.generic]]:
    """Map the arrays of all files of a checkpoint; raises ModelError as `map_arrays` does."""
    files = map(map_arrays, require_weight_files(folder))
    return {name: array for arrays in files for name, array in arrays.items()}


def write_arrays(
    path: Path, arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str] | None = None
) -> None:
    """Write arrays as one file, with the permissions of any new file.

    Only the owner could read a file that safetensors' own `save_file` wrote.
    """
    path.write_bytes(save(dict(arrays), None if metadata is None else dict(metadata)))


def metadata(path: Path) -> dict[str, str]:
    """Return the metadata of one file; raises ModelError for a file that cannot be read."""
    metadata: dict[str, str] = _header(path)[0].get(_METADATA, {})
    return metadata


def _header(path: Path) -> tuple[dict[str, Any], int]:
    # Returns the header and the offset of the data; safetensors validates both.
    try:
        with safe_open(path, framework="numpy"), path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            return json.loads(file.read(size)), 8 + size
    except (OSError, SafetensorError) as error:
        raise unreadable_error(path, error) from None


def _names(path: Path) -> list[str]:
    with safe_open(path, framework="numpy") as checkpoint:
        return list(checkpoint.keys())


def unreadable_error(path: Path, error: SafetensorError | OSError) -> ModelError:
    """Build the error for a file that cannot be read."""
    return ModelError(f"{path} cannot be read: {error}; fetch the model again")
