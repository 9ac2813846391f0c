"""Access to the weight files of a checkpoint, safetensors or of other formats, without torch."""

import json
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from embedwell_models.checkpoint import formats
from embedwell_models.checkpoint.formats import (
    FLOATS,
    FP8,
    INTEGERS,
    StoredTensor,
    TensorHeader,
)
from embedwell_models.checkpoint.tables import TOO_LARGE, Array, QuantizedMatrix, Stored, is_finite
from embedwell_models.config import other_files
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

INDEX = "model.safetensors.index.json"
GGUF = "model.gguf"
"""Name of a file in GGUF, which a folder may have in place of safetensors files."""

EXPORTS = ("model.onnx", "model_fp16.onnx")
"""Names of exports with all weights as they were; hubs have quantised ones with them."""

_METADATA = "__metadata__"


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

    The index, if there is one, names the shards. Without them, the list has the file in GGUF or
    ONNX. Raises ModelError for a shard that is missing.
    """
    if (single := folder / "model.safetensors").is_file():
        return [single]
    if (single := folder / GGUF).is_file():
        return [single]
    index = JsonConfig.optional(folder / INDEX)
    if "weight_map" not in index:
        listed = folder.glob("model-*-of-*.safetensors")
        return sorted(filter(Path.is_file, listed)) or _onnx_files(folder)
    shards = sorted({*index.get("weight_map", {}).values()})
    missing = [name for name in shards if Path(name).name != name or not (folder / name).is_file()]
    if missing:
        raise ModelError(f"{index.path}: the checkpoint lacks {missing[:4]}; fetch the model again")
    return [folder / name for name in shards]


def _onnx_files(folder: Path) -> list[Path]:
    # A pickle has precedence: it may have tensors that an export lacks, and can be converted.
    if any(folder.glob("*.safetensors")) or pickles(folder):
        return []
    places = [folder, folder / "onnx"]
    for name in EXPORTS:
        if exports := [place / name for place in places if (place / name).is_file()]:
            return exports[:1]
    listed = [path for place in places for path in place.glob("*.onnx") if path.is_file()]
    return listed if len(listed) == 1 else []


def all_weight_files(folder: Path) -> list[Path]:
    """Return the files that `require_weight_files` returns, and those next to them with weights."""
    opened = map(formats.opened, require_weight_files(folder))
    return [path for file in opened for path in file.files]


def format_name(folder: Path) -> Literal["safetensors", "GGUF", "ONNX"]:
    """Name the format of a checkpoint's weights."""
    suffixes = {path.suffix for path in weight_files(folder)}
    if other_files.GGUF in suffixes:
        return "GGUF"
    return "ONNX" if other_files.ONNX in suffixes else "safetensors"


def pickles(folder: Path) -> list[Path]:
    """Return the pickle files (shards) of a checkpoint in order."""
    single = folder / "pytorch_model.bin"
    return [single] if single.is_file() else sorted(folder.glob("pytorch_model-*-of-*.bin"))


def _without_weights(folder: Path) -> str:
    for name in ("model.safetensors", INDEX):
        if problem := other_files.dangling_link(folder / name):
            return f"{folder / name} {problem}: fetch the model again"
    saved = pickles(folder)
    if saved and (problem := other_files.problem(saved[0])):
        return f"{saved[0]} {problem}"
    if saved:
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
    hint = other_files.other_formats(folder)
    return "; ".join(filter(None, [f"{folder} has no model.safetensors", hint]))


def headers(folder: Path) -> Mapping[str, TensorHeader]:
    """Return shape and type of a checkpoint's tensors by name, from the headers of the files."""
    opened = map(formats.opened, require_weight_files(folder))
    return {name: header for file in opened for name, header in file.headers()}


def read_tensor(folder: Path, name: str) -> Floats:
    """Read one tensor as float32, by its name in `headers`.

    Raises ModelError if the tensor does not hold floating-point numbers.
    """
    files = map(map_file, require_weight_files(folder))
    stored = next(stored for file in files for other, stored in file if other == name)
    if not stored.is_float:
        raise ModelError(f"{name} {stored.refusal}")
    return stored.to_float32().copy()


def map_file(path: Path) -> Iterator[tuple[str, StoredTensor]]:
    """Map one file into memory, and yield the name of each tensor with its numbers.

    The pages are shared between processes until they are written; the file never changes. Raises
    ModelError for a file that cannot be read.
    """
    yield from formats.opened(path).tensors()


@dataclass(frozen=True)
class SafetensorsFile:
    """A file of safetensors."""

    path: Path

    @property
    def files(self) -> list[Path]:
        """The file alone."""
        return [self.path]

    def headers(self) -> Iterator[tuple[str, TensorHeader]]:
        """Yield name, shape and type of each tensor; raises ModelError as `tensors` does."""
        try:
            # safetensors calls a file missing that may not be read.
            self.path.open("rb").close()
            with safe_open(self.path, framework="numpy") as checkpoint:
                for name in checkpoint.keys():  # noqa: SIM118 - not a mapping
                    part = checkpoint.get_slice(name)
                    yield name, TensorHeader(tuple(part.get_shape()), part.get_dtype())
        except (OSError, SafetensorError) as error:
            raise unreadable_error(self.path, error) from None

    def tensors(self) -> Iterator[tuple[str, StoredTensor]]:
        """Map the file into memory, and yield the name of each tensor with its numbers.

        Raises ModelError for a file that cannot be read.
        """
        header, start = _header(self.path)
        with self.path.open("rb") as file:
            content = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)
        for name, part in header.items():
            if name != _METADATA:
                first, last = (start + offset for offset in part["data_offsets"])
                yield name, _stored(part["dtype"], part["shape"], content[first:last])


def _stored(dtype: str, shape: Sequence[int], content: npt.NDArray[np.uint8]) -> StoredTensor:
    ours = {**FLOATS, **INTEGERS, FP8: "u1"}.get(dtype)
    if ours is None:
        return StoredTensor(dtype, content)
    # A file may have tensors at any address, but numpy's and torch's code wants whole numbers.
    return StoredTensor(dtype, np.require(content.view(ours).reshape(shape), requirements="A"))


def release_pages(arrays: Iterable[Stored]) -> None:
    """Release the pages of the arrays' mapped files that were read, until they are read again.

    Changes of numbers in memory are lost.
    """
    if hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        for mapped in filter(None, {*map(_mapping, arrays)}):
            mapped.madvise(mmap.MADV_DONTNEED)


def _mapping(array: Stored) -> mmap.mmap | None:
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    content = owner.obj if isinstance(owner, memoryview) else None
    return content if isinstance(content, mmap.mmap) else None


def map_arrays(path: Path) -> dict[str, Array]:
    """Map the arrays of one file into memory, so that processes share its pages.

    bfloat16 becomes unsigned integers. Raises ModelError for a file that cannot be read.
    """
    arrays = {}
    for name, stored in map_file(path):
        if isinstance(stored.array, QuantizedMatrix) or not (stored.is_float or stored.is_integer):
            raise ModelError(f"{path}: {name} is of type {stored.dtype}")
        arrays[name] = stored.array
    return arrays


def map_folder(folder: Path) -> dict[str, Array]:
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
        with path.open("rb") as file, safe_open(path, framework="numpy"):
            size = int.from_bytes(file.read(8), "little")
            return json.loads(file.read(size)), 8 + size
    except (OSError, SafetensorError) as error:
        raise unreadable_error(path, error) from None


def unreadable_error(path: Path, error: SafetensorError | OSError) -> ModelError:
    """Build the error for a file that cannot be read."""
    if isinstance(error, PermissionError):
        return ModelError(other_files.permission_denied(path))
    problem = other_files.problem(path) or f"cannot be read: {error}; fetch the model again"
    return ModelError(f"{path} {problem}")


def to_finite_float32(folder: Path, name: str, tensor: StoredTensor) -> Floats:
    """Convert a checkpoint's tensor to float32.

    Raises ModelError for a quantised tensor, whose scale is unknown, and for NaN, infinity and
    numbers of at least TOO_LARGE.
    """
    if not tensor.is_float:
        raise ModelError(f"{folder}: {name} {tensor.refusal}")
    array = tensor.to_float32()
    if not is_finite(array):
        raise not_finite(folder, name)
    return array


def not_finite(folder: Path, name: str) -> ModelError:
    """Return the error of a tensor with NaN, infinity or a number of at least TOO_LARGE."""
    return ModelError(
        f"{folder}: {name} has NaN or infinity, or a number beyond {TOO_LARGE:.0e}; fetch the "
        "model again"
    )
