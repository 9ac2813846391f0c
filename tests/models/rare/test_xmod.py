"""Tests of X-MOD against transformers."""

from pathlib import Path
from typing import Any

import pytest
from transformers import XmodForMaskedLM

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import (
    Case,
    assert_case_refused,
    assert_close,
    assert_equal_states,
    assert_same_bits,
    encoder,
    exact_states,
    states,
    texts,
    write,
)
from tests.models.families.files import edit

LANGUAGES = {"languages": ["de_CH", "fr_CH", "rm_CH"], "default_language": "fr_CH"}
CASES = [
    Case("xmod", LANGUAGES),
    Case("xmod", {**LANGUAGES, "adapter_reduction_factor": 4, "hidden_act": "relu"}),
    Case("xmod", {"default_language": "en_XX", "layer_norm_eps": 0.05}, model=XmodForMaskedLM),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


def test_every_language_can_be_chosen_in_place_of_the_default(tmp_path: Path) -> None:
    model: Any = write(CASES[0], tmp_path)
    rows = texts(99)
    for language in LANGUAGES["languages"]:
        model.set_default_language(language)
        spec = families.read(tmp_path).with_adapter(language)
        assert spec.adapter == language
        ours = states(encoder(tmp_path, spec=spec), rows, 3)
        for mine, row in zip(ours, rows, strict=True):
            assert_close(mine, exact_states(model, row))


def test_a_language_must_be_named_if_the_files_have_no_default(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert families.read(tmp_path).with_adapter("auto").adapter == "fr_CH"
    edit(tmp_path, "default_language")
    for name in ("auto", "en_XX"):
        with pytest.raises(ModelError, match="one of de_CH, fr_CH, rm_CH, or none"):
            families.read(tmp_path).with_adapter(name)
    with pytest.raises(ModelError, match="need an adapter: EMBEDWELL_ADAPTER of de_CH"):
        weights.load(tmp_path, families.read(tmp_path).with_adapter("none"))


def test_what_is_not_implemented_is_refused_by_name(tmp_path: Path) -> None:
    for option in (
        {"pre_norm": True},
        {"adapter_layer_norm": True},
        {"adapter_reuse_layer_norm": False},
        {"ln_before_adapter": False},
        {"default_language": "en_XX"},
    ):
        assert_case_refused(CASES[0], option, tmp_path)
