"""Tests of a config.json in which one value makes no sense: nothing reads it, or it is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedwell_models import families
from embedwell_models.config.json_config import read_json
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import Case
from tests.models.families.every import EVERY, every_family, write_model

Config = dict[str, Any]
WRONG: tuple[Any, ...] = (
    "x",
    -1,
    0,
    1.5,
    True,
    [],
    [1],
    ["x"],
    {},
    {"a": 1},
    {"full_attention": 1},
    [["x", 1]],
)


def spoilt(config: Config) -> Iterator[tuple[str, Config]]:
    """Each key, inner ones too, and the file with something else for its value."""
    for key, value in config.items():
        for wrong in WRONG:
            yield key, {**config, key: wrong}
        for inner, changed in spoilt(value) if isinstance(value, dict) else ():
            yield inner, {**config, key: changed}


@every_family
@pytest.mark.full(after=10)
def test_a_wrong_value_is_refused_by_file_and_key(case: Case, tmp_path: Path) -> None:
    write_model(case, tmp_path)
    path = tmp_path / "config.json"
    for key, config in spoilt(read_json(path)):
        path.write_text(json.dumps(config), encoding="utf-8")
        try:
            families.read(tmp_path)
        except ModelError as error:
            assert str(error).startswith(f"{path}: ") and key in str(error)


COUNTS = {"num_hidden_layers", "num_layers", "n_layers", "n_layer", "num_hidden_groups"}
COUNTS |= {"num_attention_heads", "num_heads", "n_heads", "n_head", "num_key_value_heads"}
SIZES = {"vocab_size", "hidden_size", "dim", "d_model", "n_embd", "intermediate_size", "d_ff"}
SIZES |= {"max_position_embeddings", "n_positions", "max_seq_len", "head_dim", "d_kv", "d_head"}
HUGE = {**dict.fromkeys(COUNTS, 10**6), **dict.fromkeys(SIZES, 10**9)}


def refusal(folder: Path, config: Config, **changed: Any) -> str:
    """The error for a config with other values; empty if it is read."""
    (folder / "config.json").write_text(json.dumps({**config, **changed}), encoding="utf-8")
    try:
        families.read(folder)
    except ModelError as error:
        return str(error)
    return ""


@every_family
@pytest.mark.full(after=6)
def test_a_huge_size_is_refused_by_its_key_before_it_takes_memory(
    case: Case, tmp_path: Path
) -> None:
    write_model(case, tmp_path)
    config = read_json(tmp_path / "config.json")
    for key in HUGE.keys() & config.keys():
        if "whole number" in refusal(tmp_path, config, **{key: -1}):  # the family reads it
            message = refusal(tmp_path, config, **{key: HUGE[key]})
            assert f"{key} = {HUGE[key]} is not a whole number above 0 and at most" in message


def of_family(model_type: str) -> Case:
    return next(case for case in EVERY if case.model_type == model_type)


def test_a_long_list_of_repeated_layers_is_refused(tmp_path: Path) -> None:
    write_model(of_family("gpt_neo"), tmp_path)
    config = read_json(tmp_path / "config.json")
    kinds = [[["global"], 10**6]]
    assert "a whole number up to 4096" in refusal(tmp_path, config, attention_types=kinds)


def test_a_computed_table_of_very_many_positions_is_refused(tmp_path: Path) -> None:
    write_model(of_family("distilbert"), tmp_path)
    config = read_json(tmp_path / "config.json") | {"sinusoidal_pos_embds": True}
    message = refusal(tmp_path, config, max_position_embeddings=10**6)
    assert "1000000 computed positions" in message
