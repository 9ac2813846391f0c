"""Tests of the files that say how a sentence vector is made."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.errors import ModelError
from embedwell_models.model_files import modules
from embedwell_models.model_files.vector_recipe import VectorRecipe
from embedwell_models.positions.schemes import Learned
from tests.models.model_files.options import (
    NORMALIZE,
    POOLING,
    REFERENCE_MODES,
    TRANSFORMER,
)


def read(folder: Path, files: Mapping[str, object]) -> VectorRecipe:
    saved: dict[str, object] = {}
    if files and "modules.json" not in files:
        saved = {"modules.json": [TRANSFORMER, POOLING], "1_Pooling/config.json": {}}
    for name, content in {**saved, **files}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content), encoding="utf-8")
    return described(folder)


def described(folder: Path) -> VectorRecipe:
    """Read the options of a folder for an encoder of 512 positions."""
    encoder = plain_config(
        family="bert",
        vocab_size=100,
        hidden_size=48,
        num_layers=1,
        num_heads=1,
        intermediate_size=8,
        max_positions=512,
        norm_eps=1e-5,
        input_positions=Learned(),
    )
    spec = ModelSpec(config=encoder, tensors={})
    return VectorRecipe.read(folder, modules.read_entries(folder), spec)


def pooled(folder: Path, pooling: dict[str, object]) -> VectorRecipe:
    modules = [TRANSFORMER, POOLING]
    return read(folder, {"modules.json": modules, "1_Pooling/config.json": pooling})


def test_a_plain_encoder_gets_the_mean_of_its_tokens(tmp_path: Path) -> None:
    assert read(tmp_path, {}) == VectorRecipe(
        max_length=512, pooling=("mean",), pooling_source="assumed"
    )


def test_the_default_model_says_what_it_is(minilm_folder: Path) -> None:
    assert described(minilm_folder) == VectorRecipe(
        max_length=256, pooling=("mean",), normalize=True, lowercase=False
    )


@pytest.mark.parametrize("mode", REFERENCE_MODES)
def test_a_pooling_is_read_from_both_schemas(tmp_path: Path, mode: str) -> None:
    booleans: dict[str, object] = {key: new == mode for new, key in REFERENCE_MODES.items()}
    assert pooled(tmp_path, booleans).pooling == (mode,)
    assert pooled(tmp_path, {"pooling_mode": mode}).pooling == (mode,)
    assert pooled(tmp_path, {"pooling_mode": [mode]}).pooling == (mode,)


def test_the_newer_schema_wins(tmp_path: Path) -> None:
    both = {"pooling_mode": "cls", "pooling_mode_mean_tokens": True}
    assert pooled(tmp_path, both).pooling == ("cls",)


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (["mean", "cls"], ("mean", "cls")),
        (["lasttoken", "max", "mean"], ("lasttoken", "max", "mean")),
    ],
)
def test_listed_poolings_keep_their_order(
    tmp_path: Path, listed: list[str], found: tuple[str, ...]
) -> None:
    assert pooled(tmp_path, {"pooling_mode": listed}).pooling == found


def test_poolings_set_by_booleans_have_the_order_of_sentence_transformers(tmp_path: Path) -> None:
    assert pooled(
        tmp_path, dict.fromkeys(reversed(REFERENCE_MODES.values()), True)
    ).pooling == tuple(REFERENCE_MODES)


@pytest.mark.parametrize("mode", ["no_such_mode", ["mean", "no_such_mode"]])
def test_an_unknown_pooling_is_refused_with_the_ones_there_are(
    tmp_path: Path, mode: object
) -> None:
    with pytest.raises(ModelError, match=r"'no_such_mode'.* is not supported; supported: \('cls'"):
        pooled(tmp_path, {"pooling_mode": mode})


@pytest.mark.parametrize("told", [True, False])
def test_the_prompt_is_pooled_unless_the_pooling_leaves_it_out(tmp_path: Path, told: bool) -> None:
    assert pooled(tmp_path, {"pooling_mode": "mean", "include_prompt": told}).include_prompt == told
    assert pooled(tmp_path, {"pooling_mode": "mean"}).include_prompt


def test_a_pooling_folder_without_a_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"1_Pooling/config\.json is missing"):
        read(tmp_path, {"modules.json": [TRANSFORMER, POOLING]})


@pytest.mark.parametrize("wanted", [True, False])
def test_vectors_are_normalised_if_a_module_says_so(tmp_path: Path, wanted: bool) -> None:
    modules = [TRANSFORMER, POOLING, *([NORMALIZE] if wanted else [])]
    files = {"modules.json": modules, "1_Pooling/config.json": {"pooling_mode": "cls"}}
    assert read(tmp_path, files).normalize == wanted


@pytest.mark.parametrize(
    ("sentence", "tokenizer", "length"),
    [
        (None, None, 512),
        (128, None, 128),
        (128, 256, 128),
        (None, 256, 256),
        (1024, None, 512),
        (None, 10**30, 512),
    ],
)
def test_the_longest_text_is_the_first_limit_that_is_set(
    tmp_path: Path, sentence: int | None, tokenizer: int | None, length: int
) -> None:
    files: dict[str, object] = {
        "sentence_bert_config.json": {"max_seq_length": sentence},
        "tokenizer_config.json": {} if tokenizer is None else {"model_max_length": tokenizer},
    }
    assert read(tmp_path, files).max_length == length


def test_the_older_name_of_the_encoder_options_is_known(tmp_path: Path) -> None:
    files: dict[str, object] = {
        "sentence_roberta_config.json": {"max_seq_length": 99, "do_lower_case": True}
    }
    config = read(tmp_path, files)
    assert (config.max_length, config.lowercase) == (99, True)


def test_prompts_are_read_and_one_may_be_the_default(tmp_path: Path) -> None:
    prompts = {"query": "query: ", "passage": "passage: "}
    name = "config_sentence_transformers.json"
    config = read(tmp_path, {name: {"prompts": prompts, "default_prompt_name": "query"}})
    assert (config.prompts, config.default_prompt) == (prompts, "query: ")
    config = read(tmp_path, {name: {"prompts": prompts, "default_prompt_name": None}})
    assert (config.prompts, config.default_prompt) == (prompts, "")
    assert read(tmp_path, {name: {"prompts": None}}).prompts == {}
    config = read(tmp_path, {name: {"prompts": {"query": None}, "default_prompt_name": "query"}})
    assert (config.prompts, config.default_prompt) == ({"query": ""}, "")


def test_a_default_prompt_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    card = {"prompts": {"query": "query: "}, "default_prompt_name": "passage"}
    refused = r"transformers\.json: default_prompt_name = 'passage' .* supported: \['query'\]"
    with pytest.raises(ModelError, match=refused):
        read(tmp_path, {"config_sentence_transformers.json": card})
