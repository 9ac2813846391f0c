"""Tests of GPT-NeoX against transformers."""

from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoModel

from embedwell_models import families
from tests.models.families import compiled
from tests.models.families.checkpoint import (
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    assert_same_when_renamed,
    write,
)
from tests.models.families.compiled import assert_kernels_are_faithful, needs_kernels
from tests.models.families.files import edit

HALF = {"rope_theta": 500.0, "partial_rotary_factor": 0.5, "rope_type": "default"}
CASES = [
    Case("gpt_neox"),
    Case("gpt_neox", {"use_parallel_residual": False, "rope_parameters": HALF}),
    Case("gpt_neox", {"attention_bias": False, "hidden_act": "relu", "layer_norm_eps": 0.05}),
    Case("gpt_neox", {"is_causal": False, "hidden_act": "gelu_fast", "num_attention_heads": 2}),
    Case("gpt_neox", {"rope_parameters": {**HALF, "rope_type": "linear", "factor": 4.0}}),
]
REFUSED: list[dict[str, object]] = [
    {"rope_scaling": {"type": "proportional"}, "rope_parameters": None},
    {"architectures": ["GPTNeoXBiModel"]},
    {"head_dim": 96},
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
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_kernels_alone_are_faithful_in_every_precision(case: Case, tmp_path: Path) -> None:
    assert_kernels_are_faithful(write(replace(case, sizes=compiled.SIZES), tmp_path), tmp_path)


def test_the_older_keys_of_rotation_say_the_same(tmp_path: Path) -> None:
    write(CASES[1], tmp_path)
    today = families.read(tmp_path)
    edit(tmp_path, "rope_parameters", rotary_emb_base=500, rotary_pct=0.5)
    assert families.read(tmp_path) == today


@pytest.mark.parametrize(
    "options",
    [
        {"head_dim": 32},
        {"rope_theta": 300.0, "partial_rotary_factor": 1.0},
        {"rope_theta": 300.0, "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}},
        {"head_dim": 32, "rotary_emb_base": 300, "rope_scaling": {"type": "linear", "factor": 4.0}},
    ],
    ids=str,
)
def test_keys_of_other_families_are_read_as_transformers_does(
    options: dict[str, object], tmp_path: Path
) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, "rope_parameters", max_position_embeddings=24, **options)
    assert_equal_states(AutoModel.from_pretrained(tmp_path), tmp_path)


def test_a_quarter_of_a_head_is_turned_where_the_config_tells_no_share(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    today = families.read(tmp_path)
    edit(tmp_path, "rope_parameters")
    assert families.read(tmp_path) == today


def test_a_checkpoint_with_a_head_and_stored_masks_has_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    stored = ("bias", "masked_bias", "rotary_emb.inv_freq")
    unused = ("embed_out.weight", *(f"gpt_neox.layers.0.attention.{name}" for name in stored))
    assert_same_when_renamed(tmp_path, lambda name: f"gpt_neox.{name}", unused)


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    options: dict[str, object], tmp_path: Path
) -> None:
    named = {"rope_scaling": "rope_type = 'proportional'"}
    assert_case_refused(CASES[0], options, tmp_path, named.get(next(iter(options)), ""))
