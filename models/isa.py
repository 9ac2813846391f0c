"""The compiled kernels, models/kernels, in the best instruction set that this processor has."""

import ctypes
import logging
from collections.abc import Callable, Mapping
from ctypes import addressof, c_bool, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import torch

from models.threads import count

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parent / "kernels"
ISAS: Mapping[str, frozenset[str]] = {  # what Linux calls the features of each, the fastest first
    "amx": frozenset({"avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"}),
    "bf16": frozenset({"avx512_vnni", "avx512_bf16"}),
    "vnni": frozenset({"avx512_vnni"}),
    "avx512": frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"}),
    "avx2": frozenset({"avx2", "fma", "bmi2"}),
}

Kernel = Callable[[ctypes.Structure], None]


@cache
def best(dtype: str, given: frozenset[str] | None = None, folder: Path = FOLDER) -> str | None:
    """The best instruction set that was built for, and that can run and compute in a precision.

    given: the features of a processor, by default this one's.
    """
    has = features() if given is None else given
    fitting = (name for name, needed in ISAS.items() if needed <= has)
    return next((name for name in fitting if computes(name, dtype, folder)), None)


def unbuilt(given: frozenset[str] | None = None, folder: Path = FOLDER) -> bool:
    """Whether a processor, by default this one, could run kernels and none were built."""
    has = features() if given is None else given
    return ISAS["avx2"] <= has and best("float32", has, folder) is None


def kernel(isa: str, name: str) -> Kernel:
    """A function of the kernels, on as many threads as it may use: see models.threads.

    It raises MemoryError. Raises AttributeError where the instruction set lacks it.
    """
    function, (parallel, threads) = getattr(library(isa), name), _openmp()
    function.argtypes, function.restype = [c_void_p, c_void_p, c_void_p, c_int64], c_bool

    def run(call: ctypes.Structure) -> None:
        if not function(addressof(call), parallel, threads, count()):
            raise MemoryError("there is not enough memory for a pass of this size")

    return run


@cache
def library(isa: str, folder: Path = FOLDER) -> ctypes.CDLL:
    """The kernels built for an instruction set; raises OSError where they cannot be loaded."""
    loaded = ctypes.CDLL(str(folder / f"libencoder-{isa}.so"))
    if not loaded.use_tiles():
        raise OSError("the system does not lend the matrix unit")
    _openmp()
    return loaded


def computes(isa: str, dtype: str, folder: Path = FOLDER) -> bool:
    """Whether an instruction set was built for, can be loaded and computes in a precision."""
    if not (folder / f"libencoder-{isa}.so").exists():
        return False
    try:
        return hasattr(library(isa, folder), f"linear_{dtype}")
    except (OSError, AttributeError) as error:
        log.warning("kernels for %s are not used: %s", isa, error)
        return False


@cache
def _openmp() -> tuple[Any, Any]:
    # Looked up in torch's own libraries: it is their OpenMP runtime that must start the threads.
    # Another one, even of the same name, would be a second pool spinning on the same cores.
    loaded = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    entries = (loaded.GOMP_parallel, loaded.omp_get_num_threads)
    return tuple(ctypes.cast(entry, c_void_p) for entry in entries)  # type: ignore[return-value]


def features() -> frozenset[str]:
    """What Linux says of this processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())
