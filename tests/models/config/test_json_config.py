"""Tests of JSON files asked key by key."""

import json
from pathlib import Path

import pytest

from embedwell_models.config.json_config import JsonConfig, read_json
from embedwell_models.errors import ModelError


def raw(folder: Path, values: object) -> JsonConfig:
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    return JsonConfig(folder / "config.json")


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json has no 'hidden_size'"):
        raw(tmp_path, {})["hidden_size"]


def test_a_null_is_as_good_as_missing(tmp_path: Path) -> None:
    values = raw(tmp_path, {"a": None, "b": 0})
    assert (values.get("a", 1), values.get("b", 1), values.get("c", 1)) == (1, 0, 1)


def test_of_keys_that_mean_the_same_one_counts_unless_they_differ(tmp_path: Path) -> None:
    values = raw(tmp_path, {"n_layer": 2, "num_layers": 2, "depth": 3, "other": None})
    assert values.first_of("n_layer", "num_layers") == values.first_of("other", "n_layer") == 2
    assert values.first_of("missing", "other", default=5) == 5
    with pytest.raises(ModelError, match="num_layers = 2 and depth = 3 mean the same, but differ"):
        values.first_of("other", "num_layers", "depth")
    with pytest.raises(ModelError, match="has no 'missing'"):
        values.first_of("missing", "another")


def test_an_option_that_is_not_implemented_is_refused_by_name(tmp_path: Path) -> None:
    values = raw(tmp_path, {"kind": "other"})
    with pytest.raises(ModelError, match=r"kind = 'other' is not supported; .*'usual', 'rare'"):
        values.require("kind", "usual", "rare")
    assert values.require("missing", "usual", "rare") == "usual"


def test_a_value_that_nothing_stands_for_is_refused_with_those_that_something_does(
    tmp_path: Path,
) -> None:
    values = raw(tmp_path, {"kind": "other", "known": "usual"})
    choices = {"usual": 1, "rare": 2}
    assert values.choice("known", choices) == values.choice("missing", choices, "usual") == 1
    with pytest.raises(ModelError, match=r"kind = 'other' is not supported; .*'rare', 'usual'"):
        values.choice("kind", choices, "usual")
    with pytest.raises(ModelError, match="has no 'missing'"):
        values.choice("missing", choices)


def test_an_option_inside_of_another_is_told_with_both_keys(tmp_path: Path) -> None:
    values = raw(tmp_path, {"outer": {"inner": {"kind": "other"}}})
    inner = values.nested("outer").nested("inner")
    with pytest.raises(ModelError, match=r"config\.json: outer\.inner\.kind = 'other' is not"):
        inner.require("kind", "usual")
    with pytest.raises(ModelError, match=r"has no 'outer\.inner\.missing'"):
        inner["missing"]
    assert values.nested("missing").get("kind", "usual") == "usual"


def test_a_folder_without_a_config_is_no_model_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json is missing: not a model folder"):
        JsonConfig(tmp_path / "config.json")


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
