"""Tests of Llama and Mistral against transformers."""

from pathlib import Path

import pytest

from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write

SCALINGS: list[dict[str, object]] = [
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "dynamic", "factor": 4.0},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
]
CASES = [
    Case("llama", {"num_key_value_heads": 2}),
    Case("llama", {"attention_bias": True, "mlp_bias": True, "head_dim": 24}),
    Case("mistral", {"num_key_value_heads": 2, "sliding_window": 5}),
    *(
        Case(
            "llama",
            {
                "rope_parameters": {"rope_theta": 10_000.0, **scaling},
                "max_position_embeddings": 24 if scaling["rope_type"] == "dynamic" else 64,
            },
        )
        for scaling in SCALINGS
    ),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)
