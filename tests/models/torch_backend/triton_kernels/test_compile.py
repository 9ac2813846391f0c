"""Tests that the kernels compile for GPUs, which needs none."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from embedwell_models.torch_backend.triton_kernels import (
    attention,
    linear,
    norm,
    pooling,
    probe,
    rotary,
)

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
CAPABILITIES = (80, 90, 100)  # A100, H100 and B200
ARRAYS_OF_INTEGERS = {"ends", "skipped", "key_counts", "index"}
FLOATS = {"eps", "branch_eps", "scale", "softcap"}
INTEGERS = {"window", "farthest", "relative"}
ALWAYS_FLOAT32 = {
    (pooling.pooling_kernel, "out"),
    (linear.row_maximum_kernel, "out"),
    (attention.attention_kernel, "slopes"),
}
NORM: dict[str, object] = {"width": 768, "block": 1024, "has_x": True, "keeps_total": True}
ROTARY: dict[str, object] = {"heads": 12, "half": 32, "head_block": 16, "half_block": 32}
POOLING: dict[str, object] = {"width": 768, "block": 64, "tile": 32}
PLAIN: dict[str, object] = {
    **{"heads": 12, "shared": 1, "causal": False, "has_window": False, "has_counts": False},
    **dict.fromkeys(["has_cap", "has_slopes", "has_table"], False),
    **dict.fromkeys(["has_query_scores", "has_key_scores"], False),
}
KINDS_OF_ATTENTION: list[dict[str, object]] = [
    {},
    {"has_table": True},
    {"has_slopes": True, "has_counts": True},
    {"has_query_scores": True, "has_key_scores": True},
    {"has_cap": True, "has_window": True, "causal": True, "shared": 2},
]


def compiled(
    kernel: Any, constants: Mapping[str, object], dtype: str, capability: int, **options: int
) -> bytes:
    """Machine code of a kernel. constants: its compile-time arguments."""

    def type_of(name: str) -> str:
        if name in constants:
            return "constexpr"
        if name in FLOATS:
            return "fp32"
        if name in INTEGERS or name.endswith(("_row", "_head", "_stride")):
            return "i32"
        if name in ARRAYS_OF_INTEGERS:
            return "*i32"
        return "*fp32" if (kernel, name) in ALWAYS_FLOAT32 else f"*{dtype}"

    names = kernel.arg_names
    source = ASTSource(
        fn=kernel,
        signature={name: type_of(name) for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
    )
    result = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    code: bytes = result.asm["cubin"]
    return code


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_small_kernels_compile(capability: int, dtype: str) -> None:
    assert compiled(probe.store_one_kernel, {}, "fp32", capability)
    for kind, inner in (("layer", "none"), ("rms", "rms")):
        kinds = {"norm": kind, "branch_norm": inner}
        assert compiled(norm.sum_and_norm_kernel, NORM | kinds, dtype, capability)
    for activation in ("gelu", "silu", "tanh"):
        constants: dict[str, object] = {"width": 3072, "block": 1024, "activation": activation}
        assert compiled(linear.gated_kernel, constants, dtype, capability)
    for interleaved in (False, True):
        constants = ROTARY | {"interleaved": interleaved}
        assert compiled(rotary.rotary_kernel, constants, dtype, capability)
    for mode in ("mean", "max", "lasttoken"):
        assert compiled(pooling.pooling_kernel, POOLING | {"mode": mode}, dtype, capability)


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_maximum_over_rows_compiles(capability: int, dtype: str) -> None:
    exact = dtype == "fp32"
    constants = {
        **{"width": 768, "outputs": 30522},
        **linear.row_maximum_blocks(exact),
    }
    warps = 4 if exact else 8
    kernel = linear.row_maximum_kernel
    assert compiled(kernel, constants, dtype, capability, num_warps=warps)


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize(
    ("dtype", "size", "kinds"),
    [
        ("bf16", 64, KINDS_OF_ATTENTION),
        ("bf16", 256, KINDS_OF_ATTENTION[-1:]),
        ("fp32", 64, KINDS_OF_ATTENTION[-2:]),
    ],
    ids=["many", "wide", "float32"],
)
def test_attention_compiles(
    capability: int, dtype: str, size: int, kinds: list[dict[str, object]]
) -> None:
    blocks = attention.Blocks.of(size, 512, DTYPES[dtype])
    shape = {
        **{"size": size, "size_block": size},
        **{"query_block": blocks.query_block, "key_block": blocks.key_block},
    }
    for kind in kinds:
        assert compiled(
            *(attention.attention_kernel, PLAIN | shape | kind, dtype, capability),
            num_warps=blocks.num_warps,
            num_stages=blocks.num_stages,
        )
