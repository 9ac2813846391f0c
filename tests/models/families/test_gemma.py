"""Tests of Gemma, Gemma 2 and Gemma 3 against transformers."""

from dataclasses import replace
from pathlib import Path

import pytest

from embedwell_models import families
from tests.models.families import compiled
from tests.models.families.checkpoint import (
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    assert_same_when_renamed,
    windows,
    write,
)
from tests.models.families.compiled import assert_kernels_are_faithful, needs_kernels
from tests.models.families.files import edit

SHARED = {"num_key_value_heads": 2, "head_dim": 24}
LATER = {**SHARED, "sliding_window": 5, "query_pre_attn_scalar": 20}
TYPES = ["sliding_attention", "full_attention", "sliding_attention"]
ANGLES = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
}
GEMMA3 = {**LATER, "rope_parameters": ANGLES, "layer_types": TYPES}
CASES = [
    Case("gemma", {**SHARED, "rms_norm_eps": 0.05}),
    Case("gemma", {**SHARED, "attention_bias": True, "is_causal": False}),
    Case("gemma", {**SHARED, "hidden_act": "gelu"}),
    Case("gemma", {**SHARED, "hidden_act": "relu"}),
    Case("gemma2", {**LATER, "attn_logit_softcapping": 2.0}),
    Case("gemma2", {**LATER, "attn_logit_softcapping": None, "hidden_activation": "gelu"}),
    Case("gemma2", {**LATER, "layer_types": TYPES[::-1], "is_causal": False}),
    Case("gemma3_text", GEMMA3),
    Case("gemma3_text", {**GEMMA3, "sliding_window": 10, "use_bidirectional_attention": True}),
    Case("gemma3_text", {**GEMMA3, "sliding_window": 7, "use_bidirectional_attention": True}),
    Case("gemma3_text", {**GEMMA3, "is_causal": False}),
    Case("gemma3_text", {**LATER, "num_hidden_layers": 7, "attention_bias": True}, std=0.2),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)
MODELS = ("gemma", "gemma2", "gemma3_text")


@cases
@pytest.mark.full(after=3)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
@pytest.mark.full(after=2)
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


@needs_kernels
@pytest.mark.parametrize("case", [case for case in CASES if case.model_type == "gemma2"], ids=str)
@pytest.mark.full(after=1)
def test_the_kernels_alone_are_faithful_in_every_precision(case: Case, tmp_path: Path) -> None:
    options = {**case.options, "head_dim": 32}
    model = write(replace(case, sizes=compiled.SIZES, options=options), tmp_path)
    assert_kernels_are_faithful(model, tmp_path)


def test_every_second_layer_of_an_older_gemma2_has_the_window(tmp_path: Path) -> None:
    write(Case("gemma2", LATER), tmp_path)
    today = families.read(tmp_path)
    assert windows(tmp_path) == [4, None, 4]
    edit(tmp_path, "layer_types")
    assert families.read(tmp_path) == today


def test_older_configs_of_gemma3_say_the_same(tmp_path: Path) -> None:
    write(Case("gemma3_text", GEMMA3), tmp_path)
    today = families.read(tmp_path)
    older = {
        "rope_theta": 5000.0,
        "rope_local_base_freq": 50.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "sliding_window_pattern": 2,
    }
    edit(tmp_path, "rope_parameters", "layer_types", **older)
    assert families.read(tmp_path) == today


@pytest.mark.parametrize("model_type", MODELS)
def test_a_checkpoint_with_a_head_has_the_same_weights(model_type: str, tmp_path: Path) -> None:
    write(Case(model_type, SHARED), tmp_path)
    assert_same_when_renamed(tmp_path, lambda name: f"model.{name}", ("lm_head.weight",))


REFUSED: list[tuple[str, dict[str, object]]] = [
    ("gemma", {"use_bidirectional_attention": True}),
    ("gemma", {"hidden_activation": "gelu"}),
    ("gemma2", {"use_bidirectional_attention": True}),
    ("gemma2", {"layer_types": ["chunked_attention"] * 3}),
    ("gemma3_text", {"attn_logit_softcapping": 50.0}),
    ("gemma3_text", {"is_causal": False, "use_bidirectional_attention": True}),
    ("gemma3_text", {"architectures": ["Gemma3BiModel"]}),
]


@pytest.mark.parametrize(("model_type", "options"), REFUSED)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    model_type: str, options: dict[str, object], tmp_path: Path
) -> None:
    assert_case_refused(Case(model_type, SHARED), options, tmp_path)
