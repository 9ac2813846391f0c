"""Conversion of weights that torch.save wrote. Only this module opens pickles."""

import json
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.config import other_files
from embedwell_models.errors import ModelError


def convert(source: Path, target: Path) -> None:
    """Convert the checkpoint of a folder to safetensors in another; each tensor keeps its type.

    Shards stay shards, and get an index.

    Raises ModelError for files that cannot be read or contain anything but tensors.
    """
    pickles = safetensors_files.pickles(source)
    if not pickles:
        hint = other_files.other_formats(source)
        message = f"{source} has neither model.safetensors nor pytorch_model.bin"
        raise ModelError("; ".join(filter(None, [message, hint])))
    shards: dict[str, str] = {}
    for path in pickles:
        tensors = _read(path)
        name = path.with_suffix(".safetensors").name.replace("pytorch_model", "model")
        write(tensors, target / name)
        shards |= dict.fromkeys(tensors, name)
    if len(pickles) > 1:
        index = json.dumps({"metadata": {}, "weight_map": shards}, indent=2)
        (target / "model.safetensors.index.json").write_text(index, encoding="utf-8")


def convert_file(source: Path, target: Path) -> None:
    """Write one pickle as safetensors; raises ModelError as `convert` does."""
    write(_read(source), target)


def convert_export(source: Path, target: Path) -> None:
    """Write the weights of an ONNX file as safetensors; raises ModelError as `map_file` does."""
    (file,) = safetensors_files.weight_files(source)
    arrays = {}
    for name, tensor in safetensors_files.map_file(file):
        stored_type = np.float16 if tensor.dtype == "F16" else np.float32
        arrays[name] = tensor.to_float32().astype(stored_type, copy=False)
    safetensors_files.write_arrays(target / "model.safetensors", arrays, {"format": "pt"})


def write(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors, which may share memory, as safetensors."""
    path.touch()  # save_file would let only the owner read the file
    permissions = path.stat().st_mode
    save_file(_without_shared_memory(tensors), path, metadata={"format": "pt"})
    path.chmod(permissions)


def read_pickle(path: Path, classes: Sequence[type] = ()) -> Mapping[str, Any]:
    """Read a file of torch.save that contains only tensors, plain values and these classes.

    Raises ModelError for a file that cannot be read or contains anything else, and if its value is
    not a mapping.
    """
    other_files.refuse_pointer(path)
    try:
        # Of torch's two formats, only the newer one (zip) can be memory-mapped.
        mappable = zipfile.is_zipfile(path)
        with torch.serialization.safe_globals([*classes]):
            state: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=mappable)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"{path} holds more than tensors; its code is not run: {_first_line(error)}"
        ) from None
    except Exception as error:  # a damaged pickle can raise any exception
        raise ModelError(f"{path} cannot be read: {_first_line(error)}") from None
    if not isinstance(state, Mapping):
        raise ModelError(f"{path} must hold tensors by name, but holds a {type(state).__name__}")
    return state


def _read(path: Path) -> Mapping[str, Tensor]:
    state = read_pickle(path)
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise ModelError(f"{path}: {name!r} is not a tensor but {type(value).__name__}")
    return state


def _first_line(error: Exception) -> str:
    return f"{error}".strip().partition("\n")[0] or repr(error)


def _without_shared_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    # safetensors does not store tensors that share memory, such as tied weights.
    separate, seen = {}, set()
    for name, tensor in tensors.items():
        memory = tensor.untyped_storage().data_ptr()
        separate[name] = (
            tensor.clone(memory_format=torch.contiguous_format)
            if memory in seen
            else tensor.contiguous()
        )
        seen.add(memory)
    return separate
