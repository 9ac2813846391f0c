"""Tests of model folders whose small files have a value of the wrong kind."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.hub import sources
from embedwell_models.tokenizer.loading import tokenizer_config, tokenizer_kind
from tests.conftest import Folder as Write
from tests.models.tiny import VOCABULARY

CONFIG, LENGTH = "config.json", "sentence_bert_config.json"
CARD, TOKENIZER = "config_sentence_transformers.json", "tokenizer_config.json"
SIZE, COUNT = (f"a whole number above 0 and at most {most}" for most in (134217728, 4096))


def changed(folder: Path, name: str, **values: Any) -> Path:
    path = folder / name
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(known | values), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "key", "value", "wanted"),
    [
        (CONFIG, "hidden_size", "384", SIZE),
        (CONFIG, "hidden_size", 0, SIZE),
        (CONFIG, "hidden_size", 48.5, SIZE),
        (CONFIG, "num_attention_heads", True, COUNT),
        (CONFIG, "num_attention_heads", 0, COUNT),
        (CONFIG, "vocab_size", [100], SIZE),
        (CONFIG, "max_position_embeddings", -1, SIZE),
        (CONFIG, "hidden_size", None, SIZE),
        (CONFIG, "layer_norm_eps", "1e-12", "a number from 0 on"),
        (CONFIG, "layer_norm_eps", float("nan"), "a number from 0 on"),
        (CONFIG, "model_type", ["bert"], "a string"),
        (CONFIG, "hidden_act", {"name": "gelu"}, "a string"),
        (CONFIG, "position_embedding_type", ["absolute"], "a string"),
        (LENGTH, "max_seq_length", "256", "a number from 0 on"),
        (LENGTH, "modality_config", ["text"], "an object"),
        (TOKENIZER, "model_max_length", "512", "a number from 0 on"),
        (CARD, "prompts", ["a"], "an object of strings"),
        (CARD, "prompts", {"query": 7}, "an object of strings"),
        (CARD, "default_prompt_name", ["query"], "a string"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_file_and_name(
    tiny_bert: Write, name: str, key: str, value: object, wanted: str
) -> None:
    folder = changed(tiny_bert({CARD: {}}), name, **{key: value})
    with pytest.raises(ModelError) as refused:
        ModelDescription.read(folder)
    assert str(refused.value) == f"{folder / name}: {key} = {value!r} is not {wanted}"


@pytest.mark.parametrize("name", [CONFIG, LENGTH, CARD, TOKENIZER, "modules.json"])
def test_a_folder_in_the_place_of_a_file_is_named(tiny_bert: Write, name: str) -> None:
    folder = tiny_bert({LENGTH: {}})
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    with pytest.raises(ModelError) as refused:
        ModelDescription.read(folder)
    assert str(refused.value) == f"{folder / name} cannot be read: Is a directory"


@pytest.mark.parametrize("name", [CONFIG, LENGTH, CARD, TOKENIZER])
def test_a_file_that_is_no_object_is_named(tiny_bert: Write, name: str) -> None:
    folder = tiny_bert({name: ["a"]})
    with pytest.raises(ModelError) as refused:
        ModelDescription.read(folder)
    assert str(refused.value) == f"{folder / name} is not a JSON object"


def test_json_that_is_too_deep_is_named(tiny_bert: Write) -> None:
    folder = tiny_bert()
    (folder / CONFIG).write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(ModelError, match=r"config\.json is not valid JSON"):
        ModelDescription.read(folder)


@pytest.mark.parametrize("line", [{"path": ""}, "Transformer", {"type": 1, "path": ""}])
def test_a_module_of_the_wrong_kind_is_refused_with_its_file(
    tiny_bert: Write, line: object
) -> None:
    folder = tiny_bert({"modules.json": [line]})
    with pytest.raises(ModelError) as refused:
        ModelDescription.read(folder)
    assert str(folder / "modules.json") in str(refused.value)


def test_a_value_inside_of_another_is_refused_by_the_keys_of_both(tiny_bert: Write) -> None:
    rotary = {"model_type": "llama", "rope_parameters": {"rope_theta": "x"}}
    folder = changed(tiny_bert(), CONFIG, is_causal=True, **rotary)
    with pytest.raises(ModelError) as refused:
        ModelDescription.read(folder)
    said = f"{folder / CONFIG}: rope_parameters.rope_theta = 'x' is not a number above 0"
    assert str(refused.value) == said


def test_sizes_that_do_not_fit_together_are_refused_with_their_file(tiny_bert: Write) -> None:
    folder = changed(tiny_bert(), CONFIG, num_attention_heads=5)
    with pytest.raises(ModelError) as refused:
        ModelDescription.read(folder)
    assert str(refused.value) == f"{folder / CONFIG}: 5 heads do not divide hidden_size 48"


def test_what_no_check_foresees_is_refused_with_its_folder(tiny_bert: Write) -> None:
    rotary = {"model_type": "gpt_neox", "rotary_pct": 1e308}
    folder = changed(tiny_bert(), CONFIG, is_causal=True, **rotary)
    with pytest.raises(ModelError) as refused:
        ModelDescription.read(folder)
    assert f"{folder}: its files are inconsistent: " in str(refused.value)


def test_a_tokenizer_with_more_ids_than_the_table_is_told(
    tiny_bert: Write, caplog: pytest.LogCaptureFixture
) -> None:
    folder, words = tiny_bert(), len(VOCABULARY)
    ModelDescription.read(folder).tokenizer()
    assert caplog.text == ""
    changed(folder, TOKENIZER, additional_special_tokens=["<mark>"])
    ModelDescription.read(folder).tokenizer()
    assert f"{folder}: the tokenizer has ids up to {words}, the table up to {words - 1}" in (
        caplog.text
    )


def test_a_tokenizer_with_more_words_than_the_table_is_refused(tiny_bert: Write) -> None:
    folder, words = tiny_bert(vocab_size=20), len(VOCABULARY)
    with pytest.raises(ModelError, match=f"has {words} words, the table 20: .* two models"):
        ModelDescription.read(folder).tokenizer()


@pytest.mark.parametrize("name", [CONFIG, TOKENIZER, "modules.json", "tokenizer.json"])
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("/dev/zero", "is a device, a pipe or a socket: put the model's file there"),
        ("/dev/tty", "is a device, a pipe or a socket: put the model's file there"),
        ("/proc/self/mem", "cannot be read: Input/output error"),
        ("{}", "cannot be read: Too many levels of symbolic links"),
        ("blob", "is a link to blob, which is missing: fetch the model again"),
    ],
    ids=["endless device", "unreadable device", "unreadable", "loop", "dangling"],
)
def test_only_a_regular_file_is_read(
    tiny_bert: Write, name: str, target: str, message: str
) -> None:
    folder = tiny_bert()
    path = folder / name
    path.unlink(missing_ok=True)
    path.symlink_to(target.format(path))
    with pytest.raises(ModelError) as refused:
        ModelDescription.read(sources.resolve(str(folder))).tokenizer()
    if name != "tokenizer.json" or "device" in message:
        assert f"{path} {message}" in str(refused.value)


def test_a_file_of_more_bytes_than_any_has_is_not_read(tiny_bert: Write) -> None:
    folder = tiny_bert()
    os.truncate(folder / CONFIG, 1 << 40)  # takes no space
    with pytest.raises(ModelError, match=r"config\.json has 1048576 MB, and at most 256 MB are"):
        ModelDescription.read(sources.resolve(str(folder)))


@pytest.mark.parametrize(
    ("key", "value"),
    [("model_input_names", 5), ("auto_map", 5), ("auto_map", {"AutoTokenizer": 5})],
)
def test_options_of_a_tokenizer_of_the_wrong_kind_are_refused_or_say_nothing(
    tiny_bert: Write, key: str, value: object
) -> None:
    folder = changed(tiny_bert(), TOKENIZER, **{key: value})
    if key == "auto_map":
        assert tokenizer_kind.read_name(folder) == tokenizer_kind.read_name(tiny_bert())
    else:
        with pytest.raises(ModelError, match="model_input_names = 5 is not a list of strings"):
            tokenizer_config.returns_segments(folder)


@pytest.mark.parametrize("number", [np.inf, np.nan, 3e38, -1e13])
def test_numbers_that_only_a_damaged_file_has_are_refused(tiny_bert: Write, number: float) -> None:
    folder = tiny_bert()
    tensors = load_file(folder / "model.safetensors")
    name = "embeddings.word_embeddings.weight"
    tensors[name][7, 3] = number
    for dtype in (np.float32, np.float16):
        with np.errstate(over="ignore"):
            stored = {each: numbers.astype(dtype) for each, numbers in tensors.items()}
        save_file(stored, folder / "model.safetensors")
        with pytest.raises(ModelError, match=f"{name} has NaN or infinity, or a number beyond 1e"):
            Embedder.load(folder, device="cpu", dtype="float32", pooling="mean")


def test_weights_whose_products_are_not_finite_are_refused(tiny_bert: Write) -> None:
    folder = tiny_bert()
    tensors = load_file(folder / "model.safetensors")
    for name in tensors:
        if name.startswith("encoder.layer.0") and name.endswith("dense.weight"):
            tensors[name] *= np.float32(1e11) / np.abs(tensors[name]).max()
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(ModelError, match="the vector of a sentence is not finite"):
        Embedder.load(folder, device="cpu", dtype="float32", pooling="mean")
