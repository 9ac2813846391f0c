"""Tests of what a processor is said to have."""

import platform
import sys
from pathlib import Path

import pytest

from embedwell_models.cpu_backend.library import ARM
from embedwell_models.cpu_backend.processor import (
    SLOW_BFLOAT16,
    apple_features,
    arm_features,
    processor_features,
    x86_features,
)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [  # AT_HWCAP and AT_HWCAP2
        (0b11, 0, {"neon"}),
        (1 << 20 | 0b11, 0, {"neon", "dotprod"}),
        (1 << 20 | 0b11, 1 << 14, {"neon", "dotprod"}),
        (1 << 20 | 0b11, 3 << 13, {"neon", "dotprod", "mmla"}),
        (0b1, 0, set()),
    ],
)
def test_the_bits_of_linux_say_which_kernels_a_processor_can_run(
    first: int, second: int, expected: set[str]
) -> None:
    features = arm_features({16: first, 26: second}.__getitem__)
    assert {name for name, needed in ARM.items() if needed <= features} == expected


def test_the_names_of_macos_say_which_kernels_a_processor_can_run() -> None:
    first = {"hw.optional.arm64", "hw.optional.arm.FEAT_DotProd"}
    later = {"hw.optional.arm.FEAT_I8MM", "hw.optional.arm.FEAT_BF16"}
    m1, m2 = (apple_features(has.__contains__) for has in (first, first | later))
    assert m1 == ARM["dotprod"] and m2 == ARM["mmla"]


def is_slow(vendor: str, flags: str, other: str = "") -> bool:
    lines = [f"vendor_id\t: {vendor}", f"flags\t\t: {flags}", "", f"flags\t\t: {other}"]
    features = x86_features(lines)
    assert features - {SLOW_BFLOAT16} == {*flags.split()}  # of the first processor
    return SLOW_BFLOAT16 in features


def test_bfloat16_is_slow_on_intels_processors_without_their_matrix_unit() -> None:
    assert is_slow("GenuineIntel", "fma avx512_bf16", "amx_bf16")
    assert not is_slow("GenuineIntel", "fma avx512_bf16 amx_bf16")
    assert not is_slow("GenuineIntel", "fma")
    assert not is_slow("AuthenticAMD", "fma avx512_bf16")
    assert x86_features([]) == frozenset()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc/cpuinfo")
def test_this_processor_has_what_linux_lists() -> None:
    text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    found = processor_features()
    assert (
        found <= {*text.split(), SLOW_BFLOAT16}
        if platform.machine() == "x86_64"
        else "asimd" in found
    )
