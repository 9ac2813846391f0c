"""The kernels that a pass on a GPU launches, and their bytes: these numbers may only fall."""

from collections import Counter
from pathlib import Path

import pytest
from triton import knobs
from triton.runtime import driver

from deploy.gpu.launches import MODELS, Launches, counted, read, table
from embedwell_models.torch_backend.triton_kernels import norm

PAGE = Path(__file__).parents[4] / "docs" / "developers" / "architecture.md"
BERT = {"linear": 3, "linear with GELU": 1, "norm": 2, "attention": 1}
GATED = {"linear": 4, "gate": 1, "norm": 2, "rotate": 1, "attention": 1}
WORK = {  # kernels of a layer, and of a pass; bytes of a layer for each token
    "MiniLM-L6": (BERT, 44, 19_968),
    "BERT-base": (BERT, 86, 39_936),
    "BERT-large": (BERT, 170, 53_248),
    "ModernBERT-base": (GATED, 202, 50_816),
    "Qwen3-0.6B": (GATED, 256, 98_560),
}


@pytest.mark.parametrize("name", WORK)
def test_a_pass_launches_few_kernels(name: str) -> None:
    kernels, launches, per_token = WORK[name]
    model = read(MODELS[name])
    layer = model.of_layer()
    assert layer.launches == Counter(kernels)
    assert model.of_pass().launches.total() == launches
    assert layer.per_token == per_token


def test_a_layer_of_bert_moves_each_number_once() -> None:
    """A token has 384 numbers: 11 times in products, 4 in attention, 8 in two norms, 16 in GELU."""
    layer = read(MODELS["MiniLM-L6"]).of_layer()
    width, inner = 384, 1536
    products = (width + 3 * width) + 2 * width + 2 * (width + inner)
    assert layer.per_token == 2 * (products + 4 * width + 2 * 3 * width)
    norms, biases = 4 * width, 3 * width + width + inner + width
    assert layer.weights == 2 * (4 * width * width + 2 * width * inner + norms + biases)


def test_the_page_has_the_table() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


def test_kernels_are_launched_again_afterwards() -> None:
    before = driver._active, knobs.runtime.jit_cache_hook
    with counted(Launches()):
        assert norm.sum_and_norm_kernel.pre_run_hooks
    assert (driver._active, knobs.runtime.jit_cache_hook) == before
    assert not norm.sum_and_norm_kernel.pre_run_hooks
