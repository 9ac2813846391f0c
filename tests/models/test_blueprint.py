"""Tests of what a checkpoint's config.json says."""

import json
from pathlib import Path

import pytest

from models.blueprint import Blueprint, Raw, affine, linear, read_json, split
from models.errors import ModelError
from tests.models.test_config import shape

TENSORS = {
    "embeddings.word.weight": "token_table",
    **affine("layer.{}.norm", "layers.{}.attention_norm"),
    **linear("layer.{}.fused", "layers.{}.query|key|value"),
}


def blueprint(absent: frozenset[str] = frozenset()) -> Blueprint:
    return Blueprint(
        config=shape(num_layers=12),
        tensors=TENSORS,
        unused=("pooler.*", "layer.{}.inverse"),
        prefixes=("bert.", "model.bert."),
        absent=absent,
    )


def raw(folder: Path, values: object) -> Raw:
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return Raw(folder / "config.json")


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
    assert blueprint().rename(theirs) == ours


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
        blueprint().rename(name)


def test_every_tensor_of_every_layer_is_expected() -> None:
    expected = blueprint().expected()
    assert len(expected) == 1 + 12 * 5
    assert {"token_table", "layers.11.value.weight", "layers.0.attention_norm.bias"} <= expected


def test_what_a_checkpoint_does_not_have_is_not_expected() -> None:
    absent = "layers.0.attention_norm.bias"
    assert blueprint().expected() - blueprint(frozenset({absent})).expected() == {absent}


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


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json has no 'hidden_size'"):
        raw(tmp_path, {})["hidden_size"]


def test_a_null_is_as_good_as_missing(tmp_path: Path) -> None:
    values = raw(tmp_path, {"a": None, "b": 0})
    assert (values.get("a", 1), values.get("b", 1), values.get("c", 1)) == (1, 0, 1)


def test_an_option_that_is_not_implemented_is_refused_by_name(tmp_path: Path) -> None:
    values = raw(tmp_path, {"kind": "other"})
    with pytest.raises(ModelError, match=r"kind = 'other' is not supported; .*'usual', 'rare'"):
        values.only("kind", "usual", "rare")
    assert values.only("missing", "usual", "rare") == "usual"


def test_a_value_that_nothing_stands_for_is_refused_with_those_that_something_does(
    tmp_path: Path,
) -> None:
    values = raw(tmp_path, {"kind": "other", "known": "usual"})
    choices = {"usual": 1, "rare": 2}
    assert values.among("known", choices) == values.among("missing", choices, "usual") == 1
    with pytest.raises(ModelError, match=r"kind = 'other' is not supported; .*'rare', 'usual'"):
        values.among("kind", choices, "usual")
    with pytest.raises(ModelError, match="has no 'missing'"):
        values.among("missing", choices)


def test_an_option_inside_of_another_is_told_with_both_keys(tmp_path: Path) -> None:
    values = raw(tmp_path, {"outer": {"inner": {"kind": "other"}}})
    inner = values.nested("outer").nested("inner")
    with pytest.raises(ModelError, match=r"config\.json: outer\.inner\.kind = 'other' is not"):
        inner.only("kind", "usual")
    with pytest.raises(ModelError, match=r"has no 'outer\.inner\.missing'"):
        inner["missing"]
    assert values.nested("missing").get("kind", "usual") == "usual"


def test_a_folder_without_a_config_is_no_model_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json is missing: not a model folder"):
        Raw(tmp_path / "config.json")


def test_a_config_that_is_no_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json is not a JSON object"):
        raw(tmp_path, [1])


def test_broken_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"a": ', encoding="utf-8")
    with pytest.raises(ModelError, match=r"broken\.json is not valid JSON"):
        read_json(tmp_path / "broken.json")


def test_json_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes('{"a": "é"}'.encode("latin-1"))
    with pytest.raises(ModelError, match=r"latin\.json is not valid JSON"):
        read_json(tmp_path / "latin.json")
