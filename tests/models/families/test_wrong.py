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
from tests.models.families.every import EVERY, write_model

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


@pytest.mark.parametrize("case", EVERY, ids=str)
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
