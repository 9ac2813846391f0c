"""Tests of BLOOM against transformers."""

from pathlib import Path

import pytest
from transformers import AutoModel

from embedwell_models import families
from tests.models.families.checkpoint import (
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    assert_same_when_renamed,
    write,
)
from tests.models.families.files import edit

SIZES = {"vocab_size": 99, "hidden_size": 64, "n_layer": 3, "n_head": 4}
CASES = [
    Case("bloom", {}, SIZES),
    Case("bloom", {"n_head": 6, "hidden_size": 48, "layer_norm_epsilon": 0.05}, SIZES),
]
REFUSED: list[dict[str, object]] = [
    {"apply_residual_connection_post_layernorm": True},
    {"is_causal": False},
    {"slow_but_exact": True, "pretraining_tp": 2},
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


def test_the_older_names_of_the_sizes_say_the_same(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    today = families.read(tmp_path)
    older = {"n_embed": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    edit(tmp_path, "hidden_size", "n_layer", "n_head", **older)
    assert families.read(tmp_path) == today


def test_a_single_part_in_training_needs_no_slow_sum(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, slow_but_exact=True, pretraining_tp=1)
    assert_equal_states(AutoModel.from_pretrained(tmp_path), tmp_path)


def test_a_text_is_as_long_as_those_of_the_training(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert families.read(tmp_path).config.max_positions == 2048
    edit(tmp_path, seq_length=4096)
    assert families.read(tmp_path).config.max_positions == 4096


def test_a_checkpoint_with_a_head_has_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_when_renamed(tmp_path, lambda name: f"transformer.{name}", ("lm_head.weight",))


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    options: dict[str, object], tmp_path: Path
) -> None:
    assert_case_refused(CASES[0], options, tmp_path)
