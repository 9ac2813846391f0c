"""The safetensors files of a checkpoint: which they are, and what their headers say."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from models.errors import ModelError


@dataclass(frozen=True)
class Header:
    """Shape and type of a tensor in a file."""

    shape: tuple[int, ...]
    dtype: str


def files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint, one or several shards, in order."""
    found = sorted([*folder.glob("model.safetensors"), *folder.glob("model-*-of-*.safetensors")])
    if not found:
        pickled = any(folder.glob("pytorch_model*.bin"))
        hint = "; convert pytorch_model.bin to safetensors: a pickle is never loaded"
        raise ModelError(f"{folder} has no model.safetensors{hint if pickled else ''}")
    return found


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


def broken(path: Path, error: SafetensorError) -> ModelError:
    """The error for a file that cannot be read."""
    return ModelError(f"{path} cannot be read: {error}; fetch the model again")
