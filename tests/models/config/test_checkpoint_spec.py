"""Tests of what a checkpoint's config.json says."""

import pytest

from embedwell_models.config.checkpoint_spec import CheckpointSpec, affine, linear, split
from embedwell_models.errors import ModelError
from tests.models.config.shape import shape

TENSORS = {
    "embeddings.word.weight": "token_table",
    **affine("layer.{}.norm", "layers.{}.attention_norm"),
    **linear("layer.{}.fused", "layers.{}.query|key|value"),
}


def spec(absent: frozenset[str] = frozenset()) -> CheckpointSpec:
    return CheckpointSpec(
        config=shape(num_layers=12),
        tensors=TENSORS,
        unused=("pooler.*", "layer.{}.inverse"),
        prefixes=("bert.", "model.bert."),
        absent=absent,
    )


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("embeddings.word.weight", ["token_table"]),
        ("bert.embeddings.word.weight", ["token_table"]),
        ("model.bert.embeddings.word.weight", ["token_table"]),
        ("layer.11.norm.bias", ["layers.11.attention_norm.bias"]),
        ("layer.0.norm.gamma", ["layers.0.attention_norm.weight"]),
        ("layer.0.norm.beta", ["layers.0.attention_norm.bias"]),
        ("layer.3.fused.weight", [f"layers.3.{p}.weight" for p in ("query", "key", "value")]),
        ("pooler.dense.weight", []),
        ("layer.7.inverse", []),
    ],
)
def test_a_tensor_of_the_file_gets_our_names(theirs: str, ours: list[str]) -> None:
    assert spec().rename(theirs) == ours


@pytest.mark.parametrize(
    "name",
    [
        "embeddings.word.bias",
        "layer.0.1.norm.weight",
        "layer.x.norm.weight",
        "layer.0.norm.weights",
        "a.pooler.dense.weight",
        "bert.bert.embeddings.word.weight",
        "roberta.embeddings.word.weight",
    ],
)
def test_a_name_that_only_resembles_a_tensor_is_unknown(name: str) -> None:
    with pytest.raises(ModelError, match="unknown tensor"):
        spec().rename(name)


def test_every_tensor_of_every_layer_is_expected() -> None:
    expected = spec().expected()
    assert len(expected) == 1 + 12 * 5
    assert {"token_table", "layers.11.value.weight", "layers.0.attention_norm.bias"} <= expected


def test_what_a_checkpoint_does_not_have_is_not_expected() -> None:
    absent = "layers.0.attention_norm.bias"
    assert spec().expected() - spec(frozenset({absent})).expected() == {absent}


@pytest.mark.parametrize(
    ("ours", "parts"),
    [
        ("token_table", ["token_table"]),
        ("layers.{}.up.weight", ["layers.{}.up.weight"]),
        ("layers.{}.gate|up.bias", ["layers.{}.gate.bias", "layers.{}.up.bias"]),
    ],
)
def test_names_are_split_at_their_bars(ours: str, parts: list[str]) -> None:
    assert split(ours) == parts


def test_only_what_has_a_bias_is_given_one() -> None:
    assert set(linear("a", "b")) == {"a.weight"}
    assert set(linear("a", "b", bias=True)) == {"a.weight", "a.bias"}
