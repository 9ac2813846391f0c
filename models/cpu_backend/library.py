"""The compiled kernels, models/kernels, in the best instruction set that this processor has."""

import ctypes
import logging
import os
from collections.abc import Callable, Mapping
from ctypes import addressof, c_bool, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import torch

from models.cpu_backend import abi
from models.encoder.threads import count
from models.errors import ModelError

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parent.parent / "kernels"
ISAS: Mapping[str, frozenset[str]] = {  # what Linux calls the features of each, the fastest first
    "amx": frozenset({"avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"}),
    "bf16": frozenset({"avx512_vnni", "avx512_bf16"}),
    "vnni": frozenset({"avx512_vnni"}),
    "avx512": frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"}),
    "avx2": frozenset({"avx2", "fma", "bmi2"}),
}

CAPS = ("auto", *ISAS, "none")
_TORCH = {  # the environment variables with which torch and oneDNN cap their own code
    "bf16": ("avx512", "AVX512_CORE_BF16"),
    "vnni": ("avx512", "AVX512_CORE_VNNI"),
    "avx512": ("avx512", "AVX512_CORE"),
    "avx2": ("avx2", "AVX2"),
}
_process_caps: set[str] = set()

Kernel = Callable[[ctypes.Structure], None]


def limit(cap: str) -> None:
    """Cap the instruction set of everything in this process, torch's own code included.

    cap: one of CAPS; raises ModelError for another. Call it before torch computes for the first
    time: torch chooses its code then.
    """
    _check(cap)
    _process_caps.add(cap)
    if cap in _TORCH:
        for name, value in zip(
            ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"), _TORCH[cap], strict=True
        ):
            os.environ.setdefault(name, value)


def features(cap: str = "auto", processor: frozenset[str] | None = None) -> frozenset[str]:
    """The features of a processor, by Linux's names, that a cap and the process's own leave.

    cap: one of CAPS; auto takes none away. Raises ModelError for another. processor: all that it
    has, by default what this one has.
    """
    has = _processor() if processor is None else processor
    for name in (cap, *_process_caps):
        has -= _above(name)
    return has


def best(dtype: str, available: frozenset[str] | None = None, folder: Path = FOLDER) -> str | None:
    """The best instruction set that was built for, and that can run and compute in a precision.

    available: the features of a processor, by default those of this one.
    """
    has = features() if available is None else available
    fitting = (name for name, needed in ISAS.items() if needed <= has)
    return next((name for name in fitting if computes(name, dtype, folder)), None)


def lower() -> list[str]:
    """The caps under which this process would compute otherwise than now, the fastest first."""
    has = features()
    usable = [name for name in ISAS if ISAS[name] <= has and computes(name, "float32")]
    return [*usable, "none"][1:]


def unbuilt(available: frozenset[str] | None = None, folder: Path = FOLDER) -> bool:
    """Whether a processor, by default this one, could run kernels, and none can be used."""
    has = features() if available is None else available
    return ISAS["avx2"] <= has and best("float32", has, folder) is None


def kernel(isa: str, name: str) -> Kernel:
    """A function of the kernels, on as many threads as it may use: see models.encoder.threads.

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
    abi.check(loaded)
    if not loaded.use_tiles():
        raise OSError("the system does not lend the matrix unit")
    _openmp()
    return loaded


def computes(isa: str, dtype: str, folder: Path = FOLDER) -> bool:
    """Whether an instruction set was built for, can be loaded and computes in a precision."""
    exists = (folder / f"libencoder-{isa}.so").exists()
    return exists and hasattr(_usable(isa, folder), f"linear_{dtype}")


@cache  # so that what is wrong with it is logged once
def _usable(isa: str, folder: Path) -> ctypes.CDLL | None:
    try:
        return library(isa, folder)
    except OSError as error:
        log.warning("kernels for %s are not used: %s", isa, error)
    return None


@cache
def _openmp() -> tuple[Any, Any]:
    # Looked up in torch's own libraries: it is their OpenMP runtime that must start the threads.
    # Another one, even of the same name, would be a second pool spinning on the same cores.
    loaded = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    entries = (loaded.GOMP_parallel, loaded.omp_get_num_threads)
    return tuple(ctypes.cast(entry, c_void_p) for entry in entries)  # type: ignore[return-value]


def _above(cap: str) -> frozenset[str]:
    # The features of the instruction sets above a cap that those below it do without.
    _check(cap)
    if cap == "auto":
        return frozenset()
    names = list(ISAS)
    allowed = names[names.index(cap) :] if cap in ISAS else []
    return frozenset().union(*ISAS.values()) - frozenset().union(*(ISAS[name] for name in allowed))


def _check(cap: str) -> None:
    if cap not in CAPS:
        raise ModelError(f"{cap!r} is no instruction set; choose one of {', '.join(CAPS)}")


@cache
def _processor() -> frozenset[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return frozenset(flags.partition(":")[2].split())
