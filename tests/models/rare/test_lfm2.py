"""Tests of LFM2 against transformers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from embedwell_models import families
from embedwell_models.config.layer_spec import AttentionSpec, ConvolutionSpec
from embedwell_models.encoder.batch import Batch
from embedwell_models.errors import ModelError
from tests.models.families import compiled
from tests.models.families.checkpoint import (
    SIZES,
    Case,
    assert_case_refused,
    assert_close,
    assert_equal_states,
    assert_same_bits,
    assert_same_when_renamed,
    encoder,
    exact_states,
    texts,
    write,
)
from tests.models.families.compiled import assert_kernels_are_faithful, needs_kernels
from tests.models.families.exact import exactly
from tests.models.families.files import edit

TYPES = ["conv", "full_attention", "conv"]
SMALL = {**SIZES, "num_key_value_heads": 2, "block_multiple_of": 32}
BIASED = {"conv_bias": True, "conv_L_cache": 5, "norm_eps": 0.05, "full_attn_idxs": [0]}
COMPILED = {**compiled.SIZES, "num_key_value_heads": 1, "block_multiple_of": 64}
CASES = [
    Case("lfm2", {"layer_types": TYPES}, SMALL),
    Case("lfm2", BIASED, SMALL),
    Case("lfm2", {"layer_types": TYPES, "block_auto_adjust_ff_dim": False, "head_dim": 24}, SMALL),
    Case("lfm2", {"layer_types": TYPES, "block_ffn_dim_multiplier": 1.7}, SMALL),
    Case("lfm2", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}, SMALL),
    Case("lfm2", {"layer_types": TYPES, "conv_L_cache": 1}, SMALL),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


@needs_kernels
@pytest.mark.parametrize("case", [*CASES[:2], *CASES[3:]], ids=str)
def test_the_kernels_alone_are_faithful_in_every_precision(case: Case, tmp_path: Path) -> None:
    assert_kernels_are_faithful(write(replace(case, sizes=COMPILED), tmp_path), tmp_path)


@pytest.mark.parametrize("case", CASES[:2], ids=str)
def test_tokens_that_are_not_attended_to_count_as_zeros(case: Case, tmp_path: Path) -> None:
    model: Any = write(case, tmp_path)
    rows = [torch.cat([row, torch.full((4,), 5)]) for row in texts(99, (3, 17))]
    batch = Batch.of([row.numpy() for row in rows]).without_attention_to_trailing(5)
    ours = encoder(tmp_path).states(batch, 3)
    for row, mine in zip(rows, batch.split(ours), strict=True):
        mask = torch.ones_like(row)
        mask[-4:] = 0
        theirs = exact_states(model, row, attention_mask=mask[None])
        assert_close(torch.from_numpy(mine), theirs)


BIDIRECTIONAL = {
    "architectures": ["Lfm2BidirectionalModel"],
    "auto_map": {"AutoModel": "modeling_lfm2_bidirectional.Lfm2BidirectionalModel"},
}


def centred_convolution(layer: Any, x: torch.Tensor) -> torch.Tensor:
    """Compute a convolution as LFM2.5's retrievers do, of the tokens on both sides."""
    before, after, values = layer.in_proj(x).transpose(1, 2).chunk(3, dim=1)
    kernel, bias = layer.conv.weight, layer.conv.bias
    padding = kernel.shape[-1] // 2
    mixed = torch.nn.functional.conv1d(
        before * values, kernel, bias, padding=padding, groups=len(kernel)
    )
    output: torch.Tensor = layer.out_proj((after * mixed).transpose(1, 2))
    return output


@exactly
def bidirectional_states(
    model: Any, row: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Compute the last states of a text by transformers' layers, whose tokens see all others."""
    x = model.embed_tokens(row[None])
    angles = model.rotary_emb(x, torch.arange(len(row))[None])
    for layer in model.layers:
        normed = layer.operator_norm(x)
        if layer.is_attention_layer:
            layer.self_attn.is_causal = False
            mixed, _ = layer.self_attn(normed, angles, mask)
        else:
            mixed = centred_convolution(layer.conv, normed)
        x = x + mixed
        x = x + layer.feed_forward(layer.ffn_norm(x))
    states: torch.Tensor = model.embedding_norm(x)[0]
    return states


@pytest.mark.parametrize("case", CASES[:2], ids=str)
def test_tokens_of_the_retrievers_see_both_sides(case: Case, tmp_path: Path) -> None:
    model = write(case, tmp_path)
    edit(tmp_path, **BIDIRECTIONAL)
    rows = texts(99, (1, 3, 17))
    ours = encoder(tmp_path).states(Batch.of([row.numpy() for row in rows]), 3)
    lengths = [len(row) for row in rows]
    for row, mine in zip(rows, torch.split(torch.from_numpy(ours), lengths), strict=True):
        assert_close(mine, bidirectional_states(model, row))
    assert_same_bits(tmp_path)


def test_convolutions_of_the_retrievers_read_tokens_that_are_not_attended_to(
    tmp_path: Path,
) -> None:
    model = write(CASES[0], tmp_path)
    edit(tmp_path, **BIDIRECTIONAL)
    [text] = texts(99, (6,))
    row = torch.cat([text, torch.full((4,), 5)])
    batch = Batch.of([row.numpy()]).without_attention_to_trailing(5)
    ours = torch.from_numpy(encoder(tmp_path).states(batch, 3))
    mask = torch.zeros(1, 1, 1, len(row))
    mask[..., -4:] = -torch.inf
    assert_close(ours, bidirectional_states(model, row, mask))


def test_masked_language_models_have_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_when_renamed(tmp_path, lambda name: f"lfm2.{name}", ("lm_head.weight",))


def test_older_configs_say_the_same(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    today = families.read(tmp_path)
    edit(tmp_path, "layer_types", "intermediate_size", full_attn_idxs=[1], block_ff_dim=96)
    assert families.read(tmp_path) == today
    kinds = [type(layer.mixer) for layer in today.config.layers]
    assert kinds == [ConvolutionSpec, AttentionSpec, ConvolutionSpec]


def test_a_checkpoint_with_a_head_has_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_when_renamed(tmp_path, lambda name: f"model.{name}", ("lm_head.weight",))


def test_a_layer_has_the_tensors_of_its_kind(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, layer_types=[*TYPES[:2], "full_attention"])
    with pytest.raises(ModelError, match=r"layers\.2"):
        encoder(tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"layer_types": ["sliding_attention"] * 3},
        {"layer_types": TYPES[:2]},
        {"is_causal": False},
        {"use_bidirectional_attention": True},
        {"architectures": ["Lfm2OtherModel"]},
        {"auto_map": {"AutoModel": "modeling_lfm2_other.Lfm2OtherModel"}},
        {"conv_L_cache": 4, "architectures": ["Lfm2BidirectionalModel"]},
    ],
    ids=str,
)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    options: dict[str, object], tmp_path: Path
) -> None:
    assert_case_refused(CASES[0], options, tmp_path)
