"""Tests that the kernels compile for GPUs, which needs none."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from embedwell_models.torch_backend.triton_kernels import (
    attention,
    embedding,
    linear,
    norm,
    pooling,
    probe,
    rotary,
)

DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU. shared: bytes of shared memory that a block of threads can have."""

    backend: str
    architecture: int | str
    warp: int
    shared: int
    half: str = "bf16"

    def __str__(self) -> str:
        return str(self.architecture)


GPUS = [
    Gpu("cuda", 80, 32, 163 << 10),  # A100
    Gpu("cuda", 90, 32, 227 << 10),  # H100
    Gpu("cuda", 100, 32, 227 << 10),  # B200
]
OTHER_GPUS = [  # with the largest head size that is tried
    (Gpu("cuda", 86, 32, 99 << 10), 256),  # A10
    (Gpu("cuda", 89, 32, 99 << 10), 256),  # L4
    (Gpu("cuda", 120, 32, 99 << 10), 64),  # RTX 5090
    (Gpu("hip", "gfx942", 64, 64 << 10), 256),  # MI300
    (Gpu("hip", "gfx1100", 32, 64 << 10), 64),  # RX 7900
    (Gpu("cuda", 75, 32, 64 << 10, half="fp16"), 64),  # T4, where torch computes so far
]
every_gpu = pytest.mark.parametrize("gpu", GPUS, ids=str)
ARRAYS_OF_INTEGERS = {"ids", "places", "ends", "skipped", "key_counts", "index"}
FLOATS = {"eps", "branch_eps", "scale", "softcap"}
INTEGERS = {"window", "farthest", "relative"}
ALWAYS_FLOAT32 = {
    (pooling.pooling_kernel, "out"),
    (linear.row_maximum_kernel, "out"),
    (attention.attention_kernel, "slopes"),
    *((embedding.embedding_kernel, name) for name in ("segments", "positions", "weight", "bias")),
}
NORM: dict[str, object] = {"width": 768, "block": 1024, "has_x": True, "keeps_total": True}
ROTARY: dict[str, object] = {
    **{"heads": 12, "query_heads": 8, "half": 32, "rest": 16},
    **{"head_block": 16, "half_block": 32, "rest_block": 16},
}
EMBEDDING: dict[str, object] = {
    **{"width": 768, "block": 1024, "tile": 128, "vocab_size": 30522},
    **{"has_segments": True, "has_positions": True, "norm": "layer"},
}
POOLING: dict[str, object] = {"width": 768, "block": 64, "tile": 32}
SMALL_KERNELS: dict[Any, list[dict[str, object]]] = {
    norm.sum_and_norm_kernel: [
        NORM | {"norm": "layer", "branch_norm": "none"},
        NORM | {"norm": "rms", "branch_norm": "rms"},
    ],
    linear.gated_kernel: [
        {"width": 3072, "block": 1024, "activation": activation}
        for activation in ("gelu", "silu", "tanh")
    ],
    rotary.rotary_kernel: [
        ROTARY | {"interleaved": False, "norm": "none"},
        ROTARY | {"interleaved": False, "norm": "rms"},
        ROTARY | {"interleaved": True, "norm": "layer"},
    ],
    embedding.embedding_kernel: [EMBEDDING | {"padding": padding} for padding in (-1, 1)],
    pooling.pooling_kernel: [POOLING | {"mode": mode} for mode in ("mean", "max", "lasttoken")],
}
"""Kinds of each kernel; GPUs and precisions take them in turn, as they differ in none of these."""
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
    kernel: Any, constants: Mapping[str, object], dtype: str, gpu: Gpu, **options: int
) -> bytes:
    """Machine code of a kernel, which fits a GPU. constants: its compile-time arguments."""

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
    target = GPUTarget(gpu.backend, gpu.architecture, gpu.warp)
    result = triton.compile(source, target=target, options=options)
    assert result.metadata.shared <= gpu.shared
    code: bytes = result.asm["cubin" if gpu.backend == "cuda" else "hsaco"]
    return code


@every_gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_small_kernels_compile(gpu: Gpu, dtype: str) -> None:
    assert compiled(probe.store_one_kernel, {}, "fp32", gpu)
    turn = GPUS.index(gpu) + [*DTYPES].index(dtype)
    for kernel, kinds in SMALL_KERNELS.items():
        assert compiled(kernel, kinds[turn % len(kinds)], dtype, gpu)


@every_gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_maximum_over_rows_compiles(gpu: Gpu, dtype: str) -> None:
    exact = dtype == "fp32"
    constants = {
        **{"width": 768, "outputs": 30522},
        **linear.row_maximum_blocks(exact),
    }
    warps = 4 if exact else 8
    kernel = linear.row_maximum_kernel
    assert compiled(kernel, constants, dtype, gpu, num_warps=warps)


@pytest.mark.parametrize(
    ("gpu", "dtype", "size", "kinds"),
    [
        (GPUS[0], "bf16", 64, KINDS_OF_ATTENTION),
        *((gpu, "bf16", 64, KINDS_OF_ATTENTION[::4]) for gpu in GPUS[1:]),
        *((gpu, "bf16", 256, KINDS_OF_ATTENTION[-1:]) for gpu in GPUS),
        (GPUS[0], "fp32", 64, KINDS_OF_ATTENTION[-2:]),
        *((gpu, "fp32", 64, KINDS_OF_ATTENTION[-2:-1]) for gpu in GPUS[1:]),
    ],
    ids=lambda value: f"{len(value)} kinds" if isinstance(value, list) else str(value),
)
def test_attention_compiles(
    gpu: Gpu, dtype: str, size: int, kinds: list[dict[str, object]]
) -> None:
    blocks = attention.Blocks.of(size, 512, DTYPES[dtype])
    shape = {
        **{"size": size, "size_block": size},
        **{"query_block": blocks.query_block, "key_block": blocks.key_block},
    }
    for kind in kinds:
        assert compiled(
            *(attention.attention_kernel, PLAIN | shape | kind, dtype, gpu),
            num_warps=blocks.num_warps,
            num_stages=blocks.num_stages,
        )


@pytest.mark.parametrize(("gpu", "size"), OTHER_GPUS, ids=str)
@pytest.mark.full(after=1)
def test_the_largest_kernels_fit_other_gpus(gpu: Gpu, size: int) -> None:
    blocks = attention.Blocks.of(size, 512, torch.float16)
    shape = {
        **{"size": size, "size_block": size},
        **{"query_block": blocks.query_block, "key_block": blocks.key_block},
    }
    constants = {"width": 768, "outputs": 30522, **linear.row_maximum_blocks(exact=False)}
    norms = {"norm": "layer", "branch_norm": "rms"}
    assert compiled(norm.sum_and_norm_kernel, NORM | norms, gpu.half, gpu)
    assert compiled(linear.row_maximum_kernel, constants, gpu.half, gpu, num_warps=8)
    assert compiled(
        *(attention.attention_kernel, PLAIN | shape | KINDS_OF_ATTENTION[-1], gpu.half, gpu),
        num_warps=blocks.num_warps,
        num_stages=blocks.num_stages,
    )
