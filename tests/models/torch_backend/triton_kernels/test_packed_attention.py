"""Tests of the layers' attention by the Triton kernel, in its interpreter, compared with blocks."""

from pathlib import Path

import numpy as np
import pytest
import torch

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.batch_shape import BatchShape
from embedwell_models.torch_backend.attention import (
    AttentionFunction,
    AttentionOptions,
    padded_attention,
)
from embedwell_models.torch_backend.cuda_graphs import RECORDED_SHAPES
from embedwell_models.torch_backend.encoder import InputEmbeddings, TorchEncoder
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import TorchLinearFactory
from embedwell_models.torch_backend.operators import (
    FlashAttention,
    PackedAttention,
    fastest_attention,
    triton_operators,
)
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.triton_kernels.attention import attend
from embedwell_models.torch_backend.triton_kernels.embedding import embed_rows
from tests.models.families.checkpoint import Case, write
from tests.models.torch_backend.encoders import CASES as GRAPH_CASES
from tests.models.torch_backend.encoders import RELATIVE_CASES
from tests.models.torch_backend.heads import CPU, PLAIN, RULES, WINDOWS, heads_of

pytestmark = pytest.mark.interpreter

CASES = [*GRAPH_CASES, *RELATIVE_CASES, Case("xlm-roberta", {"pad_token_id": 1})]
OPTIONS = WINDOWS | {"softcap": RULES["softcap"]}


def packed(options: AttentionOptions, size: int, dtype: torch.dtype) -> AttentionFunction:
    """Attention as on a GPU without FlashAttention."""
    attention = fastest_attention(options, size, dtype, has_flash=False, has_triton=True)
    assert isinstance(attention, PackedAttention)
    return attention


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("shape", [None, BatchShape(32, 4, 32)], ids=["own", "larger"])
def test_the_kernel_computes_what_the_blocks_do(
    options: AttentionOptions, shape: BatchShape | None
) -> None:
    layout = SequenceLayout([3, 9, 5], CPU, shape=shape)
    heads = heads_of(layout)
    mixed = PackedAttention(attend)(*heads, layout, options)[: layout.tokens]
    expected = padded_attention(*heads, layout, options)[: layout.tokens]
    torch.testing.assert_close(mixed, expected, atol=1e-5, rtol=1e-5)


def test_tokens_that_are_not_attended_to_are_left_out() -> None:
    layout = SequenceLayout([3, 9], CPU, shape=BatchShape(16, 3, 16), key_counts=[3, 5])
    heads = heads_of(layout)
    mixed = PackedAttention(attend)(*heads, layout, PLAIN)[: layout.tokens]
    expected = padded_attention(*heads, layout, PLAIN)[: layout.tokens]
    torch.testing.assert_close(mixed, expected, atol=1e-5, rtol=1e-5)


def test_flash_attention_leaves_tokens_that_are_not_attended_to_to_the_kernel() -> None:
    chosen = fastest_attention(PLAIN, 64, torch.float16, has_flash=True, has_triton=True)
    assert isinstance(chosen, FlashAttention) and chosen.limited == PackedAttention(attend)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_model_has_the_vectors_of_blocks(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    spec = families.read(tmp_path)
    loaded = weights.load(tmp_path, spec)
    parts, linear = (
        InputEmbeddings(spec.config, loaded, CPU),
        TorchLinearFactory(CPU, torch.float32),
    )
    blocks = TorchEncoder(parts, TorchLayers(spec.config, loaded, linear, CPU))
    layers = TorchLayers(spec.config, loaded, linear, CPU, triton_operators(packed))
    inputs = InputEmbeddings(spec.config, loaded, CPU, embed_rows)
    plan = layers.plan(RECORDED_SHAPES)
    assert plan.shapes and (plan.attention, plan.kernels) == ({"triton": len(layers)}, "triton")
    noise = np.random.default_rng(3)
    batch = Batch.of([noise.integers(6, 99, length) for length in (1, 26, 4)])
    # Padding rows hold what was in the memory before, which may overflow.
    with np.errstate(all="ignore"):
        found = TorchEncoder(inputs, layers).vectors(batch, ["mean"])
    np.testing.assert_allclose(found, blocks.vectors(batch, ["mean"]), atol=2e-5, rtol=1e-4)
