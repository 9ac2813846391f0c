"""Loading of the compiled kernels for the instruction sets of this CPU."""

import ctypes
import logging
import os
from collections.abc import Callable, Mapping
from ctypes import addressof, c_bool, c_int64, c_void_p
from functools import cache
from pathlib import Path

from embedwell_models.cpu_backend import abi
from embedwell_models.cpu_backend.processor import SLOW_BFLOAT16, processor_features
from embedwell_models.encoder.threads import TeamSizing, process_thread_count, thread_count
from embedwell_models.errors import ModelError

log = logging.getLogger(__name__)

FOLDER = Path(__file__).parent.parent / "kernels"
X86: Mapping[str, frozenset[str]] = {  # CPU features (Linux names), fastest set first
    "amx": frozenset({"avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"}),
    "bf16": frozenset({"avx512_vnni", "avx512_bf16"}),
    "vnni": frozenset({"avx512_vnni"}),
    "avx512": frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"}),
    "avxvnni": frozenset({"avx2", "fma", "bmi2", "avx_vnni"}),
    "avx2": frozenset({"avx2", "fma", "bmi2"}),
}
ARM: Mapping[str, frozenset[str]] = {
    "mmla": frozenset({"asimd", "asimddp", "i8mm", "bf16"}),
    "dotprod": frozenset({"asimd", "asimddp"}),
    "neon": frozenset({"asimd"}),
}
ISAS: Mapping[str, frozenset[str]] = {**X86, **ARM}
BFLOAT16_PRODUCTS = frozenset(
    name for name, needed in ISAS.items() if needed & {"avx512_bf16", "bf16"}
)
"""Instruction sets that multiply numbers in bfloat16, in int8's attention as well."""

PRODUCTS = {"int4": "int8"}
"""Precision of the products, where it is not that of the weights."""

SHORT_SUMS = frozenset({"avx512", "avx2"})
"""Instruction sets whose kernels for int8 add two neighbouring products in 16 bits."""

SPLIT_FLOATS = frozenset({"amx"})
"""Instruction sets whose kernels for float32 split each weight into parts."""

CAPS = ("auto", *ISAS, "none")
_TORCH_CAPS = {  # values of the environment variables that limit torch and oneDNN
    "bf16": ("avx512", "AVX512_CORE_BF16"),
    "vnni": ("avx512", "AVX512_CORE_VNNI"),
    "avx512": ("avx512", "AVX512_CORE"),
    "avxvnni": ("avx2", "AVX2_VNNI"),
    "avx2": ("avx2", "AVX2"),
}
_process_caps: set[str] = set()
_used_isas: set[str] = set()

Kernel = Callable[[ctypes.Structure], None]


def cap_isa(cap: str) -> None:
    """Limit the instruction set of this process, including torch's own code.

    Call it before torch computes anything, because torch then chooses its code. cap: one of CAPS.
    Raises ModelError for another cap.
    """
    _check_cap(cap)
    _process_caps.add(cap)
    if cap in _TORCH_CAPS:
        for name, value in zip(
            ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA"), _TORCH_CAPS[cap], strict=True
        ):
            os.environ.setdefault(name, value)


def features(cap: str = "auto", processor: frozenset[str] | None = None) -> frozenset[str]:
    """Return the CPU features (Linux names) that this cap and the process's caps allow.

    cap: one of CAPS; auto allows all. processor: the features of a CPU, by default this CPU. Raises
    ModelError for another cap.
    """
    allowed = _processor_features() if processor is None else processor
    for name in (cap, *_process_caps):
        allowed -= _features_above(name)
    return allowed


def best_isa(
    dtype: str, available: frozenset[str] | None = None, folder: Path = FOLDER
) -> str | None:
    """Return the fastest instruction set that has kernels for a precision, or None.

    available: CPU features; by default those of this CPU.
    """
    available = features() if available is None else available
    return next((name for name in _by_speed(available) if supports(name, dtype, folder)), None)


def has_fast_bfloat16(available: frozenset[str]) -> bool:
    """Whether products in bfloat16 are faster than in float32. available: CPU features."""
    return best_isa("bfloat16", available) is not None and SLOW_BFLOAT16 not in available


def lower_caps() -> list[str]:
    """Return the caps below the instruction set in use, the fastest first."""
    available = features()
    usable = [name for name in ISAS if ISAS[name] <= available and supports(name, "float32")]
    best = best_isa("float32", available)
    return [*(usable[usable.index(best) + 1 :] if best else ()), "none"]


def processor_has_kernels(available: frozenset[str] | None = None) -> bool:
    """Whether there are kernels for a CPU (by default this one), compiled or not."""
    available = features() if available is None else available
    return ISAS["avx2"] <= available or ISAS["neon"] <= available


def kernels_missing(available: frozenset[str] | None = None, folder: Path = FOLDER) -> bool:
    """Whether a CPU (by default this CPU) could run kernels, but no library is usable."""
    available = features() if available is None else available
    return processor_has_kernels(available) and best_isa("float32", available, folder) is None


def kernel(isa: str, name: str) -> Kernel:
    """Return a kernel function that runs on up to thread_count() threads; it may raise MemoryError.

    Raises AttributeError if the instruction set lacks the function.
    """
    function, (parallel, threads) = getattr(library(isa), name), team_functions()
    _used_isas.add(isa)
    function.argtypes, function.restype = [c_void_p, c_void_p, c_void_p, c_int64], c_bool

    def run(call: ctypes.Structure) -> None:
        sizing = team_sizing(count) if (count := thread_count()) > 1 else None
        size = sizing.size if sizing is not None else 1
        if not function(addressof(call), parallel, threads, size):
            raise MemoryError("there is not enough memory for a forward pass of this size")
        if sizing is not None:
            sizing.observe(*last_team())

    return run


@cache
def team_sizing(count: int) -> TeamSizing:
    """Return the size of this process's teams of up to `count` threads."""
    return TeamSizing(count)


def last_team(folder: Path = FOLDER) -> tuple[int, float, float]:
    """Return the size of the last team that the calling thread started, and two times in seconds.

    These are the duration, and the processor time of all its threads.
    """
    times = _threads(folder).last_team().contents
    return times.size, times.elapsed / 1e9, times.computed / 1e9


@cache
def library(isa: str, folder: Path = FOLDER) -> ctypes.CDLL:
    """Load the kernels of an instruction set; raises OSError if they or their threads cannot be."""
    loaded = ctypes.CDLL(str(folder / f"libencoder-{isa}.so"))
    abi.check(loaded, abi.source_checksum(folder))
    if not loaded.use_tiles():
        raise OSError("the operating system does not allow the matrix unit (AMX)")
    team_functions(folder)
    loaded.release_scratch.argtypes = [c_void_p, c_int64]
    loaded.release_scratch.restype = c_int64
    return loaded


def release_scratch() -> int:
    """Free the memory that the threads of the kernels keep for the next call; return its bytes.

    It is as large as the largest call needed. The threads are the calling one and the team's.
    """
    count = process_thread_count()
    return sum(library(isa).release_scratch(team_functions()[0], count) for isa in _used_isas)


@cache
def team_functions(folder: Path = FOLDER) -> tuple[c_void_p, c_void_p]:
    """Return addresses of the functions that run a team of threads, and return its size.

    Raises OSError if their library cannot be loaded.
    """
    loaded = _threads(folder)
    return ctypes.cast(loaded.run_team, c_void_p), ctypes.cast(loaded.team_size, c_void_p)


@cache
def _threads(folder: Path) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(folder / "libthreads.so"))
    abi.check(loaded, abi.source_checksum(folder), abi.THREADS)
    loaded.last_team.restype = ctypes.POINTER(abi.TeamTimes)
    return loaded


def supports(isa: str, dtype: str, folder: Path = FOLDER) -> bool:
    """Whether kernels of an instruction set exist, load, and support a precision."""
    exists = (folder / f"libencoder-{isa}.so").exists()
    return exists and hasattr(_usable(isa, folder), f"linear_{PRODUCTS.get(dtype, dtype)}")


@cache
def _usable(isa: str, folder: Path) -> ctypes.CDLL | None:
    try:
        return library(isa, folder)
    except OSError as error:
        _warn(folder, isa, str(error))
    return None


def _by_speed(available: frozenset[str]) -> list[str]:
    # Usable instruction sets, the fastest first.
    usable = [name for name, needed in ISAS.items() if needed <= available]
    if SLOW_BFLOAT16 not in available:
        return usable
    return sorted(usable, key=lambda name: name in BFLOAT16_PRODUCTS)


def _warn(folder: Path, isa: str, reason: str) -> None:
    # Once for a reason: all libraries may have been compiled from older sources.
    if (folder, reason) not in _warned:
        _warned.add((folder, reason))
        log.warning("kernels for %s are not used: %s", isa, reason)


def _features_above(cap: str) -> frozenset[str]:
    # CPU features that only instruction sets above the cap need, for the same kind of processor.
    _check_cap(cap)
    if cap == "none":
        return frozenset().union(*ISAS.values())
    kind = next((sets for sets in (X86, ARM) if cap in sets), {})
    names = list(kind)
    allowed = [kind[name] for name in names[names.index(cap) :]] if kind else []
    return frozenset().union(*kind.values()) - frozenset().union(*allowed)


def _check_cap(cap: str) -> None:
    if cap not in CAPS:
        raise ModelError(f"{cap!r} is not an instruction set; choose one of {', '.join(CAPS)}")


_processor_features = cache(processor_features)
_warned: set[tuple[Path, str]] = set()
