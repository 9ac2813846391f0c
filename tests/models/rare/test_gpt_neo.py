"""Tests of GPT-Neo against transformers."""

from pathlib import Path

import pytest

from tests.models.families.checkpoint import (
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    assert_same_when_renamed,
    windows,
    write,
)
from tests.models.families.files import edit

SIZES = {
    "vocab_size": 99,
    "hidden_size": 64,
    "num_layers": 3,
    "num_heads": 4,
    "max_position_embeddings": 64,
    "attention_types": [[["global", "local"], 1], [["global"], 1]],
    "window_size": 5,
}
CASES = [
    Case("gpt_neo", {}, SIZES),
    Case("gpt_neo", {"window_size": 1, "attention_types": [[["local"], 3]]}, SIZES),
    Case("gpt_neo", {"intermediate_size": 96, "activation_function": "relu"}, SIZES),
    Case("gpt_neo", {"layer_norm_epsilon": 0.05}, SIZES),
]
REFUSED: list[dict[str, object]] = [
    {"is_causal": False},
    {"architectures": ["GPTNeoBiModel"]},
    {"attention_types": [[["global"], 2]]},
    {"attention_types": [[["global", "sparse", "local"], 1]]},
    {"attention_layers": ["local", "global", "global"]},
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


def test_every_second_of_24_layers_sees_256_tokens_where_nothing_else_is_told(
    tmp_path: Path,
) -> None:
    write(Case("gpt_neo", {}, {**SIZES, "hidden_size": 8}), tmp_path)
    edit(tmp_path, "attention_types", "attention_layers", "window_size", num_layers=24)
    assert windows(tmp_path) == [None, 255] * 12


def test_a_checkpoint_with_a_head_and_stored_masks_has_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    masks = [f"transformer.h.0.attn.attention.{name}" for name in ("bias", "masked_bias")]
    assert_same_when_renamed(
        tmp_path, lambda name: f"transformer.{name}", ("lm_head.weight", *masks)
    )


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    options: dict[str, object], tmp_path: Path
) -> None:
    assert_case_refused(CASES[0], options, tmp_path)
