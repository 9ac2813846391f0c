"""Lengths of vectors that a checkpoint declares."""

import json
from collections.abc import Collection
from pathlib import Path

import pytest

from embedwell_models.errors import ModelError
from embedwell_models.model_files.matryoshka import declared_dimensions


def write(folder: Path, **config: object) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("config", "lengths"),
    [
        ({}, ()),
        ({"is_matryoshka": False}, ()),
        ({"is_matryoshka": True}, range(1, 9)),
        ({"matryoshka_dimensions": [8, 4, 2]}, [2, 4, 8]),
        ({"matryoshka_dimensions": [4], "is_matryoshka": True}, [4]),
    ],
)
def test_lengths_are_read_from_the_keys_that_checkpoints_have(
    tmp_path: Path, config: dict[str, object], lengths: Collection[int]
) -> None:
    assert declared_dimensions(write(tmp_path, **config), 8) == lengths


@pytest.mark.parametrize("listed", [[9], [0], [2.0], [True], "4", {"4": 1}])
def test_what_is_no_list_of_lengths_is_refused(tmp_path: Path, listed: object) -> None:
    with pytest.raises(ModelError, match="matryoshka_dimensions"):
        declared_dimensions(write(tmp_path, matryoshka_dimensions=listed), 8)
