"""The features of this machine's processor, by the names that Linux has for them."""

import ctypes
import platform
import sys
from collections.abc import Callable, Sequence
from ctypes import c_size_t, c_ulong
from pathlib import Path

SLOW_BFLOAT16 = "slow_bfloat16"
"""Our name for processors that multiply bfloat16 more slowly than float32.

These are Intel's whose matrix unit is missing, or hidden by a system older than Linux 5.16: 0.55
times as fast as float32 on a Xeon of the fourth generation.
"""

_HWCAP, _HWCAP2 = 16, 26  # entries of the auxiliary vector
_ARM_BITS = {  # the entry and the bit of each feature (asm/hwcap.h of Linux)
    "asimd": (_HWCAP, 1),
    "asimddp": (_HWCAP, 20),
    "i8mm": (_HWCAP2, 13),
    "bf16": (_HWCAP2, 14),
}
_APPLE_NAMES = {  # of macOS, where every ARM64 processor has NEON
    "asimd": "hw.optional.arm64",
    "asimddp": "hw.optional.arm.FEAT_DotProd",
    "i8mm": "hw.optional.arm.FEAT_I8MM",
    "bf16": "hw.optional.arm.FEAT_BF16",
}


def processor_features() -> frozenset[str]:
    """Return the features of this processor; none where nothing says which it has."""
    machine = platform.machine()
    if sys.platform == "darwin":
        return apple_features(_sysctl) if machine == "arm64" else frozenset()
    if sys.platform != "linux":
        return frozenset()
    if machine == "aarch64":
        return arm_features(_auxiliary_value) if sys.maxsize > 2**32 else frozenset()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return x86_features(lines)


def arm_features(value: Callable[[int], int]) -> frozenset[str]:
    """Return the features that the bits of Linux' auxiliary vector say.

    value: the value of an entry, by its number.
    """
    return frozenset(name for name, (entry, bit) in _ARM_BITS.items() if value(entry) >> bit & 1)


def x86_features(lines: Sequence[str]) -> frozenset[str]:
    """Return the flags of /proc/cpuinfo's first processor, and SLOW_BFLOAT16 if it is so."""
    fields = {name.strip(): value for name, _, value in (x.partition(":") for x in reversed(lines))}
    flags = frozenset(fields.get("flags", "").split())
    of_intel = fields.get("vendor_id", "").strip() == "GenuineIntel"
    is_slow = of_intel and "avx512_bf16" in flags and "amx_bf16" not in flags
    return flags | {SLOW_BFLOAT16} if is_slow else flags


def apple_features(value: Callable[[str], int]) -> frozenset[str]:
    """Return the features that macOS says. value: that of a name of sysctl, 0 without it."""
    return frozenset(name for name, apple in _APPLE_NAMES.items() if value(apple))


def _auxiliary_value(entry: int) -> int:
    read = ctypes.CDLL(None).getauxval
    read.argtypes, read.restype = [c_ulong], c_ulong
    return int(read(entry))


def _sysctl(name: str) -> int:
    found, size = ctypes.c_int64(), c_size_t(8)
    read = ctypes.CDLL(None).sysctlbyname
    failed = read(name.encode(), ctypes.byref(found), ctypes.byref(size), None, c_size_t(0))
    return 0 if failed else found.value
