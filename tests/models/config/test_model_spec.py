"""Tests of what a checkpoint's config.json says."""

from dataclasses import replace

import pytest

from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine, linear, split
from embedwell_models.errors import ModelError
from tests.models.config.shape import shape

TENSORS = {
    "embeddings.word.weight": "token_table",
    **affine("layer.{}.norm", "layers.{}.attention_norm"),
    **linear("layer.{}.fused", "layers.{}.query|key|value"),
}


def spec() -> ModelSpec:
    return ModelSpec(
        config=shape(num_layers=12),
        tensors=TENSORS,
        unused=("pooler.*", "layer.{}.inverse"),
        prefixes=("bert.", "model.bert."),
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


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("module.layer.3.fused.weight", "known without 'module.': save the model itself"),
        ("_orig.mod.embeddings.word.weight", "known without '_orig.mod.': save the model itself"),
        ("wrapped.pooler.dense.weight", "known without 'wrapped.': save the model itself"),
        ("layer.3.other.weight", "bert has none of this name, so the weights are of another"),
    ],
)
def test_an_unknown_tensor_says_what_to_do(name: str, advice: str) -> None:
    with pytest.raises(ModelError, match=advice):
        spec().rename(name)


def test_our_tensors_have_the_names_of_the_file_in_messages() -> None:
    ours = [f"layers.3.{part}.weight" for part in ("query", "key", "attention_norm")]
    theirs = ["layer.3.fused.weight", "layer.3.norm.weight"]
    assert spec().their_names(ours) == theirs
    assert spec().describe("layers.3.key.weight") == "layer.3.fused.weight (key)"
    assert spec().describe("token_table") == "embeddings.word.weight"
    assert spec().their_names(["image"]) == ["image"]


def test_every_tensor_of_every_layer_is_expected() -> None:
    expected = spec().expected()
    assert len(expected) == 1 + 12 * 5
    assert {"token_table", "layers.11.value.weight", "layers.0.attention_norm.bias"} <= expected


def test_tensors_that_a_layer_does_not_have_are_not_expected() -> None:
    first, *others = spec().config.layers
    changed = replace(spec().config, layers=(replace(first, attention_norm=False), *others))
    lacking = spec().expected() - replace(spec(), config=changed).expected()
    assert lacking == {f"layers.0.attention_norm.{part}" for part in ("weight", "bias")}


def test_tensors_of_shared_layers_are_expected_once() -> None:
    numbered = enumerate(spec().config.layers)
    layers = tuple(replace(layer, weights=index % 2) for index, layer in numbered)
    shared = replace(spec(), config=replace(spec().config, layers=layers))
    numbers = {name.split(".")[1] for name in shared.expected() if name.startswith("layers.")}
    assert numbers == {"0", "1"}


def test_a_name_with_its_number_is_of_that_layer_alone() -> None:
    tensors = {"block.0.1.norm": "layers.0.1.norm", **TENSORS}
    numbered = replace(spec(), tensors=tensors)
    assert numbered.expected() - spec().expected() == {"layers.0.1.norm"}
    assert numbered.rename("bert.block.0.1.norm") == ["layers.0.1.norm"]
    with pytest.raises(ModelError, match="unknown tensor"):
        numbered.rename("block.1.1.norm")


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
