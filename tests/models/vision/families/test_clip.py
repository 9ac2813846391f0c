"""Tests of the text encoder of CLIP against transformers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import CLIPModel, CLIPTextModel, CLIPTextModelWithProjection

from embedwell_models import families
from tests.models.families.checkpoint import (
    SIZES,
    Case,
    assert_equal_states,
    assert_same_bits,
    encoder,
    states,
    texts,
    write,
)

OPTIONS = {"max_position_embeddings": 40, "projection_dim": 32}
CASES = [
    Case("clip_text_model", {**OPTIONS, **options}, model=CLIPTextModel)
    for options in ({}, {"hidden_act": "gelu"}, {"layer_norm_eps": 0.05})
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


def test_the_encoder_of_a_model_with_a_projection_is_read(tmp_path: Path) -> None:
    case = Case("clip_text_model", OPTIONS, model=CLIPTextModelWithProjection)
    model: Any = write(case, tmp_path)
    assert_equal_states(model.text_model, tmp_path)


def write_whole(folder: Path) -> Any:
    small = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    vision = {**small, "num_attention_heads": 2, "image_size": 8, "patch_size": 4}
    case = Case(
        "clip", {"vision_config": vision}, {"text_config": {**SIZES, **OPTIONS}}, model=CLIPModel
    )
    return write(case, folder)


def test_the_text_encoder_of_a_model_with_images_is_read(tmp_path: Path) -> None:
    assert_equal_states(write_whole(tmp_path).text_model, tmp_path)


def test_older_files_say_the_same_in_other_places(tmp_path: Path) -> None:
    model = write_whole(tmp_path).text_model
    path = tmp_path / "config.json"
    known = json.loads(path.read_text())
    known["text_config_dict"] = known["text_config"]
    known["text_config"] = {**known["text_config"], "num_hidden_layers": 12}
    path.write_text(json.dumps(known))
    assert_equal_states(model, tmp_path)


def test_older_names_load_to_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    rows = texts(SIZES["vocab_size"])
    expected = states(encoder(tmp_path), rows, 3)
    path = tmp_path / "model.safetensors"
    older = {f"text_model.{name}": tensor for name, tensor in load_file(path).items()}
    save_file({**older, "text_model.embeddings.position_ids": torch.arange(40)[None]}, path)
    for found, known in zip(states(encoder(tmp_path), rows, 3), expected, strict=True):
        assert torch.equal(found, known)


def test_what_a_file_leaves_out_is_as_in_the_smallest_published_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "clip", "text_config": {}}')
    config = families.read(tmp_path).config
    assert (config.hidden_size, config.num_layers, config.attention.heads) == (512, 12, 8)
    assert (config.vocab_size, config.max_positions) == (49_408, 77)
    assert config.feed_forward.activation == "gelu_sigmoid" and config.norm_eps == 1e-5
