"""Tests of XLNet against transformers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import XLNetForSequenceClassification, XLNetLMHeadModel

from embedwell_models import families
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.compiled import assert_kernels_are_faithful, needs_kernels
from tests.models.tiny import VOCABULARY

SIZES = {
    "vocab_size": 99,
    "d_model": 64,
    "d_inner": 96,
    "n_layer": 3,
    "n_head": 4,
    "layer_norm_eps": 0.05,
}
COMPILED = {**SIZES, "vocab_size": len(VOCABULARY), "n_head": 2, "d_inner": 128}
CASES = [Case("xlnet", {"ff_activation": name}, SIZES) for name in ("gelu", "relu", "silu")]
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
    assert_kernels_are_faithful(write(replace(case, sizes=COMPILED), tmp_path), tmp_path)


@pytest.mark.parametrize("model", [XLNetLMHeadModel, XLNetForSequenceClassification])
def test_the_encoder_of_a_model_with_a_head_is_read(model: type, tmp_path: Path) -> None:
    whole: Any = write(Case("xlnet", {}, SIZES, model=model), tmp_path)
    assert_equal_states(whole.transformer, tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attn_type", "uni"),
        ("bi_data", True),
        ("clamp_len", 400),
        ("untie_r", False),
        ("ff_activation", "mish"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(
    key: str, value: object, tmp_path: Path
) -> None:
    write(CASES[0], tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(ModelError, match=key):
        families.read(tmp_path)
