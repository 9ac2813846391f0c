"""Tests of ModernBERT against transformers."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModel, ModernBertForMaskedLM, ModernBertForSequenceClassification

from embedwell_models import families
from embedwell_models.errors import ModelError
from embedwell_models.positions.schemes import Rotary
from tests.models.families.checkpoint import (
    SPECIAL,
    Case,
    assert_equal_states,
    assert_same_bits,
    attentions,
    windows,
    write,
)
from tests.models.families.files import assert_refused, change, edit, loaded

LAYERS = ["sliding_attention", "sliding_attention", "full_attention"]
SCALED = {
    "full_attention": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 500.0},
    "sliding_attention": {"rope_type": "linear", "factor": 3.0, "rope_theta": 50.0},
}
CASES = [
    Case("modernbert", {"local_attention": 10, **SPECIAL}),
    Case("modernbert", {"norm_bias": True, "attention_bias": True, "mlp_bias": True, **SPECIAL}),
    Case("modernbert", {"global_attn_every_n_layers": 2, "local_attention": 6, **SPECIAL}),
    *(
        Case("modernbert", {"hidden_activation": name, **SPECIAL})
        for name in ("gelu_new", "relu", "silu")
    ),
    Case("modernbert", {"norm_eps": 0.05, "layer_types": LAYERS, **SPECIAL}),
    Case("modernbert", {"rope_parameters": SCALED, "max_position_embeddings": 24, **SPECIAL}),
    Case("modernbert", SPECIAL, model=ModernBertForMaskedLM),
    Case("modernbert", SPECIAL, model=ModernBertForSequenceClassification),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
@pytest.mark.full(after=3)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
@pytest.mark.full(after=3)
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


def test_the_keys_of_older_releases_say_the_same(tmp_path: Path) -> None:
    turns = {"rope_theta": 500.0}, {"rope_theta": 50.0}
    parameters = dict(zip(("full_attention", "sliding_attention"), turns, strict=True))
    model = write(Case("modernbert", {"rope_parameters": parameters, **SPECIAL}), tmp_path)
    older = {"global_attn_every_n_layers": 3, "global_rope_theta": 500.0, "local_rope_theta": 50.0}
    edit(tmp_path, "layer_types", "rope_parameters", **older)
    assert_equal_states(model, tmp_path)


@pytest.mark.parametrize(
    "options", [{"sliding_window": 3}, {"local_attention": 7}, {"rope_theta": 300.0}], ids=str
)
def test_keys_that_contradict_each_other_are_read_as_transformers_does(
    options: dict[str, object], tmp_path: Path
) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, **options)
    assert_equal_states(AutoModel.from_pretrained(tmp_path), tmp_path)


def test_bases_and_the_pattern_have_their_defaults(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    before = families.read(tmp_path).config
    edit(tmp_path, "layer_types", "rope_parameters")
    assert families.read(tmp_path).config == before
    bases = [Rotary(dim=16, base=base) for base in (160_000.0, 10_000.0, 10_000.0)]
    assert [layer.positions for layer in before.layers] == bases
    assert windows(tmp_path) == [None, 5, 5]


def test_a_scaling_of_older_releases_is_that_of_all_layers(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    edit(tmp_path, "rope_parameters", rope_scaling={"rope_type": "linear", "factor": 2.0})
    for attention in attentions(tmp_path):
        assert isinstance(attention.positions, Rotary)
        assert attention.positions.scaling.factor == 2.0


@pytest.mark.parametrize("kinds", [["chunked_attention"] * 3, LAYERS[:1], LAYERS * 2])
def test_other_kinds_and_numbers_of_layers_are_refused(kinds: list[str], tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_refused(tmp_path, layer_types=kinds)


def test_a_norm_before_the_first_attention_is_refused(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    more = {"layers.0.attn_norm.weight": torch.ones(64)}
    change(tmp_path, lambda tensors: {**tensors, **more})
    with pytest.raises(ModelError, match=r"layers\.0\.attn_norm\.weight"):
        loaded(tmp_path)
