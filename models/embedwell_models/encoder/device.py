"""The device that a model computes on, and its free memory, without an import of torch."""

import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

# Device files of NVIDIA's GPUs, also in Jetson boards and WSL 2, and of AMD's.
_GPU_FILES = ("nvidia*", "nvhost*", "nvmap", "dxg", "kfd")


@dataclass(frozen=True)
class Device:
    """A device by torch's name of its type, such as cpu or cuda, and its index, if it has one."""

    type: str
    index: int | None = None

    @classmethod
    def parse(cls, name: str) -> "Device":
        """Parse a name such as cpu or cuda:0."""
        type, _, index = name.partition(":")
        return cls(type, int(index) if index else None)

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


def may_be_gpu(name: str, folder: Path = Path("/dev")) -> bool:
    """Whether a device's name (auto, cpu, cuda, cuda:N) may mean a GPU, which needs torch.

    Where a machine may have a GPU and torch is installed, only torch knows what auto means.
    folder: the device files of a Linux system.
    """
    if name != "auto":
        return name != "cpu"
    return torch_is_installed() and (has_gpu_file(folder) or sys.platform != "linux")


def has_gpu_file(folder: Path = Path("/dev")) -> bool:
    """Whether a Linux system has a device file of a GPU. folder: the device files."""
    return any(True for pattern in _GPU_FILES for _ in folder.glob(pattern))


def torch_is_installed() -> bool:
    """Whether torch is installed; does not import it."""
    try:
        return find_spec("torch") is not None
    except (ModuleNotFoundError, ValueError):  # a module that is None
        return False


def release_gpu_cache() -> None:
    """Return the memory of GPUs that torch keeps but does not use."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.cuda.empty_cache()


def return_free_memory() -> None:
    """Return the process's free memory to the system, such as that of a large request."""
    import ctypes  # which takes longer to import than the rest of this module

    library = ctypes.CDLL(None) if os.name == "posix" else None
    if trim := getattr(library, "malloc_trim", None):  # glibc has it
        trim(0)
