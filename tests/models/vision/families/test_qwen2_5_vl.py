"""Tests of Qwen2.5-VL for texts, with and without images, against transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedwell_models import families
from embedwell_models.config.json_config import read_json
from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import (
    Case,
    assert_close,
    assert_equal_states,
    assert_same_bits,
    encoder,
    exact_states,
    states,
    texts,
    write,
)
from tests.models.families.files import edit, loaded, rename
from tests.models.image_models import encoded, picture
from tests.models.qwen2_vl import (
    AREA,
    CONTENTS,
    INSTRUCTION,
    OF_KERNELS,
    SIZES,
    Parts,
    flatten,
    processed,
    theirs,
    write_model,
    write_qwen2_vl,
)
from tests.models.qwen3_vl import write_layout

# Windows have two blocks of 28 pixels a side: whole ones, and ones that the image cuts.
SIDES = [(56, 56), (112, 168), (28, 280), (140, 84), (333, 190)]
IMAGES: list[Parts] = [[encoded(picture(*size))] for size in SIDES]

both = pytest.mark.parametrize("sizes", [{}, OF_KERNELS], ids=["torch", "kernels"])
CASES = [Case("qwen2_5_vl_text", {}, {"vocab_size": 99, **SIZES})]


def test_every_layer_equals_transformers(tmp_path: Path) -> None:
    assert_equal_states(write(CASES[0], tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_bits(tmp_path)


@torch.inference_mode()
def test_a_text_has_the_states_of_the_whole_model(tmp_path: Path) -> None:
    model, rows = write_model(tmp_path, model_type="qwen2_5_vl"), texts(99)
    for mine, row in zip(states(encoder(tmp_path), rows, 3), rows, strict=True):
        assert_close(mine, exact_states(model.model, row))


def test_the_names_of_newer_and_older_files_say_the_same(tmp_path: Path) -> None:
    write_model(tmp_path, model_type="qwen2_5_vl")
    today, before = families.read(tmp_path), loaded(tmp_path)
    rename(tmp_path, {"^model.": "model.language_model.", "^visual.": "model.visual."})
    assert all(np.array_equal(before[name], part) for name, part in loaded(tmp_path).items())
    flatten(tmp_path)
    assert families.read(tmp_path) == today


def test_code_of_a_repository_is_refused_by_name(tmp_path: Path) -> None:
    write_model(tmp_path, model_type="qwen2_5_vl")
    edit(tmp_path, auto_map={"AutoModel": "modeling.OwnVL"})
    with pytest.raises(ModelError, match="auto_map"):
        families.read(tmp_path)


def write_served(folder: Path, **sizes: Any) -> Any:
    """Save a model with the files of sentence-transformers, and images of 4 to 60 tokens."""
    model = write_qwen2_vl(folder, model_type="qwen2_5_vl", **sizes)
    bounds = {"min_pixels": 4 * AREA, "max_pixels": 60 * AREA}
    write_layout(folder, processor_kwargs=bounds)
    return model


def load(folder: Path) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32")


@both
def test_vectors_are_those_of_transformers(sizes: dict[str, Any], tmp_path: Path) -> None:
    model = write_served(tmp_path, **sizes)
    contents = [*CONTENTS, *IMAGES]
    vectors = load(tmp_path).embed_contents(contents, prompt=INSTRUCTION)

    def read(data: bytes) -> Any:
        return processed(tmp_path, data, (4, 60), twice=False)

    for parts, vector in zip(contents, vectors, strict=True):
        expected = theirs(tmp_path, model, parts, read, of_gme=False)
        assert_close(torch.from_numpy(vector), expected)


@both
def test_a_vector_does_not_depend_on_its_batch(sizes: dict[str, Any], tmp_path: Path) -> None:
    write_served(tmp_path, **sizes)
    embedder = load(tmp_path)
    for parts, vector in zip(IMAGES, embedder.embed_contents(IMAGES), strict=True):
        assert np.array_equal(embedder.embed_contents([parts])[0], vector)


def test_every_parameter_is_counted(tmp_path: Path) -> None:
    model = write_served(tmp_path)
    every = sum(parameter.numel() for parameter in model.model.parameters())
    assert Footprint.of(ModelDescription.read(tmp_path)).parameters == every


def test_without_modules_the_pooling_must_be_named(tmp_path: Path) -> None:
    write_qwen2_vl(tmp_path, model_type="qwen2_5_vl")
    with pytest.raises(ModelError, match=r"without modules\.json"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *([("model_type", "own"), ("in_channels", 4), ("out_hidden_size", 32)]),
        *([("window_size", 27), ("fullatt_block_indexes", [3])]),
    ],
)
def test_other_image_encoders_are_refused_by_name(key: str, value: Any, tmp_path: Path) -> None:
    write_model(tmp_path, model_type="qwen2_5_vl")
    vision = read_json(tmp_path / "config.json")["vision_config"]
    edit(tmp_path, vision_config={**vision, key: value})
    with pytest.raises(ModelError, match=key):
        families.read(tmp_path)
