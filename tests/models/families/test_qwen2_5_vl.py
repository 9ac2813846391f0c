"""Tests of Qwen2.5-VL for texts alone, against transformers."""

from pathlib import Path

import numpy as np
import pytest
import torch

from embedwell_models import families
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import (
    Case,
    assert_close,
    assert_equal_states,
    assert_same_bits,
    encoder,
    states,
    texts,
    write,
)
from tests.models.families.files import edit, loaded, rename
from tests.models.qwen2_vl import SIZES, flatten, write_model

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
        assert_close(mine, model.model(input_ids=row[None]).last_hidden_state[0])


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
