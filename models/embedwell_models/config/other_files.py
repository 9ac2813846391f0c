"""Files that are not what a model's folder should have: what they are, and what to do.

Each description continues a sentence that begins with a path.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedwell_models.errors import ModelError

_POINTER = b"version https://git-lfs.github.com/spec/"
_MARKS = {
    b"\xef\xbb\xbf": "begins with a byte order mark (BOM), which JSON must not have: save it as "
    "UTF-8 without BOM",
    b"\xff\xfe": "is UTF-16: save it as UTF-8",
    b"\xfe\xff": "is UTF-16: save it as UTF-8",
}
GGUF = ".gguf"
"""Suffix of files that are served by their own path."""

GGUF_WARNINGS = "gguf_warnings.json"
"""Name of a file that only the folder of a GGUF file has, see embedwell_formats.gguf.folder."""

ONNX = ".onnx"
"""Suffix of files whose folders are served."""

_GLINER = "gliner_config.json"
_FORMATS = {
    GGUF: "GGUF (llama.cpp)",
    ONNX: "ONNX",
    ".h5": "TensorFlow",
    ".msgpack": "Flax",
    ".ot": "Rust",
    ".tflite": "TensorFlow Lite",
    ".xml": "OpenVINO",
}
MAX_SIZE = 1 << 28
"""Most bytes of a file without weights: more than any vocabulary has."""

_FOLDERS = ("*", "onnx/*", "openvino/*", "gguf/*")
_PARTS = ("config.json", "modules.json")


def read(path: Path) -> bytes:
    """Return the content of a file without weights, as far as `check_readable` allows.

    Raises FileNotFoundError for a missing file, and ModelError.
    """
    check_readable(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size or MAX_SIZE  # 0: some file systems do not say it
            return file.read(min(size, MAX_SIZE))  # reserves as much
    except OSError as error:
        raise _unreadable(path, error) from None


def check_readable(path: Path) -> None:
    """Raise ModelError for anything but a regular file of at most MAX_SIZE bytes.

    A device may have no end, and the first byte of a pipe may never come. Raises FileNotFoundError
    for a missing file.
    """
    try:
        state = path.stat()
    except FileNotFoundError:
        if text := dangling_link(path):
            raise ModelError(f"{path} {text}: fetch the model again") from None
        raise
    except OSError as error:  # such as a link that leads to itself
        raise _unreadable(path, error) from None
    if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
        raise ModelError(f"{path} is a device, a pipe or a socket: put the model's file there")
    if state.st_size > MAX_SIZE:
        raise ModelError(
            f"{path} has {state.st_size >> 20} MB, and at most {MAX_SIZE >> 20} MB are read: fetch "
            "the model again"
        )


def dangling_link(path: Path) -> str:
    """Describe a link whose target does not exist; "" for anything else."""
    if not path.is_symlink() or os.path.exists(path):
        return ""
    return f"is a link to {path.readlink()}, which is missing"


@contextmanager
def permission_errors() -> Iterator[None]:
    """Convert the error of a file or folder that may not be read to a ModelError."""
    try:
        yield
    except PermissionError as error:
        raise ModelError(permission_denied(error.filename)) from None


def permission_denied(path: Path | str) -> str:
    """Say that a file or folder may not be read."""
    return f"{path} cannot be read: Permission denied"


def _unreadable(path: Path, error: OSError) -> ModelError:
    return ModelError(f"{path} cannot be read: {error.strerror}")


def is_pointer(path: Path) -> bool:
    """Whether a file is a Git LFS pointer, which a clone without LFS has in place of the file."""
    return start(path, len(_POINTER)) == _POINTER


def problem(path: Path) -> str:
    """Describe a file that is a Git LFS pointer; "" for another file."""
    if not is_pointer(path):
        return ""
    return (
        "is a Git LFS pointer, a few lines in place of the file: run `git lfs pull` in its folder, "
        "or fetch the model again"
    )


def refuse_pointer(path: Path) -> None:
    """Raise ModelError for a Git LFS pointer."""
    if text := problem(path):
        raise ModelError(f"{path} {text}")


def json_problem(path: Path) -> str:
    """Describe a file that is not JSON because of what its first bytes are; "" if they are not."""
    first = start(path, 3)
    marks = (text for mark, text in _MARKS.items() if first.startswith(mark))
    return problem(path) or next(marks, "")


def format_name(path: Path) -> str:
    """Name the format of another program's model; "" for any other file."""
    return _FORMATS.get(path.suffix.lower(), "")


def other_formats(folder: Path) -> str:
    """Describe a model that a folder has in another program's format; "" without one."""
    if (folder / _GLINER).is_file():
        return f"{_GLINER} is of a GLiNER, which labels parts of a text: such models are not served"
    for path in _files(folder):
        if format_name(path):
            return f"{path.relative_to(folder).as_posix()} {other_format(path)}"
    return ""


def other_format(path: Path) -> str:
    """Describe a file in another program's format."""
    name = format_name(path)
    if path.suffix.lower() == GGUF:
        return f"is in the format {name}: give the path of this file as the model"
    if path.suffix.lower() == ONNX:
        return (
            f"is in the format {name}, which is read from a folder: give one with config.json, and "
            "with model.onnx or onnx/model.onnx in float32 or float16"
        )
    return (
        f"is in the format {name}, which embedwell does not read: give the folder of the original "
        "model, with its config.json and model.safetensors, or its name on the hub"
    )


def folders_inside(folder: Path) -> str:
    """Describe the model folders inside a folder that is none itself; "" without one."""
    if (folder / "modules.json").exists():
        return ""  # the folders inside are its modules
    models = [path for path in _models(folder) if not path.name[:1].isdigit()]
    models += sorted(path.parent for path in folder.glob("snapshots/*/config.json"))
    return f"give the folder of one model, such as {models[0]}" if models else ""


def _models(folder: Path) -> list[Path]:
    return sorted({path.parent for part in _PARTS for path in folder.glob(f"*/{part}")})


def _files(folder: Path) -> Iterator[Path]:
    for pattern in _FOLDERS:
        yield from sorted(path for path in folder.glob(pattern) if path.is_file())


def start(path: Path, size: int) -> bytes:
    """Return the first bytes of a file; b"" for one that cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
