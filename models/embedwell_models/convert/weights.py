"""Conversion of weights that torch.save wrote: only here a pickle is opened."""

import json
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.errors import ModelError


def convert(source: Path, target: Path) -> None:
    """Write the checkpoint of a folder to another as safetensors, each tensor in its own type.

    Shards stay shards, with an index beside them.

    Raises ModelError for files that cannot be read or hold more than tensors.
    """
    pickles = safetensors_files.pickles(source)
    if not pickles:
        raise ModelError(f"{source} has neither model.safetensors nor pytorch_model.bin")
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


def write(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors, which may share memory, as safetensors."""
    path.touch()  # with the permissions of any new file: save_file's are for its owner alone
    permissions = path.stat().st_mode
    save_file(_without_shared_memory(tensors), path, metadata={"format": "pt"})
    path.chmod(permissions)


def read_pickle(path: Path, classes: Sequence[type] = ()) -> Mapping[str, Any]:
    """Read what torch.save wrote, with tensors, plain values and these classes alone.

    Raises ModelError for a file that cannot be read or holds more, and for anything but a mapping.
    """
    try:
        # Only the newer of torch's two formats, a zip, can be memory-mapped.
        mappable = zipfile.is_zipfile(path)
        with torch.serialization.safe_globals([*classes]):
            state: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=mappable)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"{path} holds more than tensors, and its code is not run: {_first_line(error)}"
        ) from None
    except Exception as error:  # a damaged pickle raises anything
        raise ModelError(f"{path} cannot be read: {_first_line(error)}") from None
    if not isinstance(state, Mapping):
        raise ModelError(f"{path} holds no tensors by name, but a {type(state).__name__}")
    return state


def _read(path: Path) -> Mapping[str, Tensor]:
    state = read_pickle(path)
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise ModelError(f"{path}: {name!r} is no tensor, but a {type(value).__name__}")
    return state


def _first_line(error: Exception) -> str:
    return f"{error}".strip().partition("\n")[0] or repr(error)


def _without_shared_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    # safetensors has no tensors that share memory, as tied weights do.
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
