"""Tests of Qwen2-VL and GME for texts alone, against transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedwell_models import families
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
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
from tests.models.qwen2_vl import (
    INSTRUCTION,
    SIZES,
    flatten,
    write_gme,
    write_model,
    write_qwen2_vl,
)
from tests.models.qwen3_vl import last_states, rendered, tokenized, write_layout

CASES = [
    Case("qwen2_vl_text", {}, {"vocab_size": 99, **SIZES}),
    Case(
        "qwen2_vl_text",
        {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
        {"vocab_size": 99, **SIZES},
    ),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)
TEXTS = ["the license", "", " \n any of this work\n", "a <|im_end|> mark"]
END = "<|endoftext|>"  # which GME's code puts at the end


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", **options)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


@torch.inference_mode()
def test_a_text_has_the_states_of_the_whole_model(tmp_path: Path) -> None:
    model, rows = write_model(tmp_path), texts(99)
    for mine, row in zip(states(encoder(tmp_path), rows, 3), rows, strict=True):
        assert_close(mine, model.model(input_ids=row[None]).last_hidden_state[0])


def test_the_names_of_newer_and_older_files_say_the_same(tmp_path: Path) -> None:
    write_model(tmp_path)
    today, before = families.read(tmp_path), loaded(tmp_path)
    rename(tmp_path, {"^model.": "model.language_model.", "^visual.": "model.visual."})
    assert all(np.array_equal(before[name], part) for name, part in loaded(tmp_path).items())
    flatten(tmp_path)
    assert families.read(tmp_path) == today


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"is_causal": False}, "is_causal = False"),
        ({"architectures": ["OwnVLModel"]}, "architectures"),
        ({"auto_map": {"AutoModel": "modeling.OwnVL"}}, "auto_map"),
        ({"text_config": {"model_type": "qwen2"}}, r"text_config\.model_type"),
    ],
)
@pytest.mark.parametrize("is_flat", [True, False])
def test_other_options_are_refused_by_name(
    options: dict[str, Any], named: str, is_flat: bool, tmp_path: Path
) -> None:
    write_model(tmp_path)
    if is_flat:
        flatten(tmp_path)
    edit(tmp_path, **options)
    with pytest.raises(ModelError, match=named):
        families.read(tmp_path)


@pytest.mark.parametrize("modules", [True, False])
def test_texts_are_read_as_in_the_code_of_gme(modules: bool, tmp_path: Path) -> None:
    model = write_gme(tmp_path, modules)
    embedder = load(tmp_path)
    assert embedder.sentence.default_prompt == INSTRUCTION and embedder.sentence.normalize
    for instruction in (None, "Find a license."):
        read = [rendered(text, instruction or INSTRUCTION) + END for text in TEXTS]
        rows = [tokenized(tmp_path, text) for text in read]
        assert embedder.tokenize(TEXTS, prompt=instruction) == rows
        vectors = embedder.embed(TEXTS, prompt=instruction)
        assert_close(torch.from_numpy(vectors), last_states(model, rows))
        for text, vector in zip(TEXTS, vectors, strict=True):
            assert np.array_equal(embedder.embed([text], prompt=instruction)[0], vector)
    plain = embedder.embed(TEXTS, prompt="")  # which gives the default instruction, too
    assert np.array_equal(plain, embedder.embed(TEXTS))


def test_a_long_text_keeps_what_is_around_it(tmp_path: Path) -> None:
    write_gme(tmp_path, max_length=64)
    (row,) = load(tmp_path).tokenize(["you may copy " * 60])
    end = tokenized(tmp_path, rendered("\0").partition("\0")[2] + END)
    whole = tokenized(tmp_path, rendered("you may copy " * 60, INSTRUCTION) + END)
    assert row == [*whole[: 64 - len(end)], *end]


@pytest.mark.parametrize("key", ["auto_map", "architectures"])
def test_a_gme_is_known_by_its_code(key: str, tmp_path: Path) -> None:
    write_qwen2_vl(tmp_path)
    own = {"auto_map": {"AutoModel": "own.GmeQwen2VL"}, "architectures": ["GmeQwen2VL"]}
    edit(tmp_path, **{key: own[key]})
    assert families.read(tmp_path).config.family == "gme"
    assert ModelDescription.read(tmp_path).sentence.pooling == ("lasttoken",)


def test_other_code_in_modules_is_refused(tmp_path: Path) -> None:
    write_gme(tmp_path)
    edit(tmp_path, auto_map=None)
    with pytest.raises(ModelError, match="remote code"):
        ModelDescription.read(tmp_path)


def test_a_model_without_a_known_format_is_refused(tmp_path: Path) -> None:
    write_qwen2_vl(tmp_path)
    with pytest.raises(ModelError, match="a Qwen2-VL without modules"):
        ModelDescription.read(tmp_path)
    assert load(tmp_path, pooling="lasttoken").embed("the license").shape == (64,)


def test_texts_are_read_in_the_template_that_modules_name(tmp_path: Path) -> None:
    model = write_qwen2_vl(tmp_path)
    write_layout(tmp_path)
    embedder = load(tmp_path)
    rows = [tokenized(tmp_path, rendered(text, "Find it.")) for text in TEXTS]
    assert embedder.tokenize(TEXTS, prompt="Find it.") == rows
    vectors = embedder.embed(TEXTS, prompt="Find it.")
    assert_close(torch.from_numpy(vectors), last_states(model, rows))
