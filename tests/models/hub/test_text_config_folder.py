"""Tests of a model whose config.json leaves the sizes of its text encoder to another model's."""

import json
from pathlib import Path

import numpy as np
import pytest

from embedwell_models.config.json_config import read_object
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.hub.sources import resolve
from tests.models.families.jina_clip import write_v1

TEXTS = ["the license", "a copyright of this work"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A Jina CLIP as it is published, which names a folder in place of a model of the hub."""
    folder, other = tmp_path / "model", tmp_path / "other"
    write_v1(folder)
    other.mkdir()
    (folder / "text_config.json").rename(other / "config.json")
    name(folder, str(other))
    return folder


def name(folder: Path, other: str) -> None:
    config = read_object(folder / "config.json")
    config["text_config"]["hf_model_name_or_path"] = other
    (folder / "config.json").write_text(json.dumps(config))


def test_the_file_of_the_named_model_is_linked(model: Path) -> None:
    cache = model.parent / "cache"
    joined = resolve(str(model), cache=cache)
    assert {path.name for path in joined.iterdir()} > {path.name for path in model.iterdir()}
    assert (joined / "text_config.json").resolve() == model.parent / "other/config.json"
    assert resolve(str(model), cache=cache) == joined
    vectors = Embedder.load(model, device="cpu", dtype="float32", cache=cache).embed(TEXTS)
    (model / "text_config.json").write_bytes((joined / "text_config.json").read_bytes())
    assert resolve(str(model), cache=cache) == model
    assert np.array_equal(Embedder.load(model, device="cpu", dtype="float32").embed(TEXTS), vectors)


def test_what_to_do_without_a_hub_is_said(model: Path) -> None:
    name(model, "no/such")
    with pytest.raises(ModelError, match=r"names 'no/such' for .* there as text_config.json"):
        resolve(str(model), cache=model.parent / "cache")


def test_a_model_that_names_no_other_is_returned_itself(model: Path) -> None:
    config = read_object(model / "config.json")
    config["text_config"] = {"hf_model_name_or_path": None}
    (model / "config.json").write_text(json.dumps(config))
    assert resolve(str(model), cache=model.parent / "cache") == model
