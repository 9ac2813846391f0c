"""Tests of Qwen3-VL for texts alone, against transformers and sentence-transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from embedwell_models import families
from embedwell_models.description import model_fingerprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError, PromptTooLongError
from embedwell_models.model_files.transformer import TransformerOptions
from embedwell_models.positions.schemes import Rotary
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
from tests.models.families.exact import exactly
from tests.models.families.files import change, edit, loaded, rename
from tests.models.qwen3_vl import (
    INSTRUCTION,
    MESSAGE,
    METHOD,
    SIZES,
    last_states,
    rendered,
    save,
    tokenized,
    write_layout,
    write_model,
    write_processor,
    write_qwen3_vl,
)

CASES = [
    Case("qwen3_vl_text", {}, {"vocab_size": 99, **SIZES}),
    Case("qwen3_vl_text", {"attention_bias": True, "head_dim": 32}, {"vocab_size": 99, **SIZES}),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)
TEXTS = ["the license", "", " \n any of this work\n", "a <|im_end|> mark", "you may copy " * 60]
LONG = 4  # of TEXTS, longer than the model reads
MAX_LENGTH = 128


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
    # Whose positions are three for each token.
    model, rows = write_model(tmp_path), texts(99)
    for mine, row in zip(states(encoder(tmp_path), rows, 3), rows, strict=True):
        assert_close(mine, exact_states(model.model, row))
    positions = torch.arange(len(rows[1])).expand(3, 1, -1)
    same = model.model(input_ids=rows[1][None], position_ids=positions).last_hidden_state[0]
    assert_close(states(encoder(tmp_path), rows, 3)[1], same)


def test_the_encoder_of_images_is_not_read(tmp_path: Path) -> None:
    write_model(tmp_path)
    before = loaded(tmp_path)
    rename(tmp_path, {"^model.": ""})  # as AutoModel saves it
    assert all(np.array_equal(before[name], part) for name, part in loaded(tmp_path).items())
    change(tmp_path, lambda tensors: {k: v for k, v in tensors.items() if "visual" not in k})
    assert loaded(tmp_path).keys() == before.keys()
    change(tmp_path, lambda tensors: tensors | {"audio.layers.0.weight": torch.zeros(1)})
    with pytest.raises(ModelError, match=r"unknown tensor 'audio\.layers"):
        loaded(tmp_path)


def test_older_configs_say_the_same(tmp_path: Path) -> None:
    write_model(tmp_path)
    today = families.read(tmp_path)
    scaling = {"mrope_interleaved": True, "mrope_section": [4, 2, 2], "rope_type": "default"}
    text = {"vocab_size": 99, **SIZES, "model_type": "qwen3_vl_text", "rope_scaling": scaling}
    text = {key: value for key, value in text.items() if key != "rope_parameters"}
    edit(tmp_path, text_config={**text, "rope_theta": 5e6, "max_position_embeddings": 128_000})
    assert families.read(tmp_path) == today
    positions = today.config.attention.positions
    assert isinstance(positions, Rotary) and positions.base == 5e6


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"is_causal": False}, "is_causal = False"),
        ({"architectures": ["OwnVLModel"]}, "architectures"),
        ({"text_config": {"model_type": "qwen3_text"}}, r"text_config\.model_type"),
        ({"text_config": {"model_type": "qwen3_vl_text", "is_causal": False}}, "is_causal"),
    ],
)
def test_other_options_are_refused_by_name(
    options: dict[str, Any], named: str, tmp_path: Path
) -> None:
    write_model(tmp_path)
    edit(tmp_path, **options)
    with pytest.raises(ModelError, match=named):
        families.read(tmp_path)


@pytest.mark.parametrize("ends", [True, False])
def test_texts_are_read_as_their_authors_read_them(ends: bool, tmp_path: Path) -> None:
    model = write_qwen3_vl(tmp_path, ends=ends)
    embedder = load(tmp_path)
    assert embedder.recipe.default_prompt == INSTRUCTION and embedder.recipe.normalize
    for instruction in (None, "Find a license."):
        rows = [tokenized(tmp_path, rendered(text, instruction or INSTRUCTION)) for text in TEXTS]
        end = tokenized(tmp_path, rendered("\0").partition("\0")[2])
        rows[LONG] = [*rows[LONG][: MAX_LENGTH - len(end)], *end]
        assert embedder.tokenize(TEXTS, prompt=instruction) == rows
        vectors = embedder.embed(TEXTS, prompt=instruction)
        assert_close(torch.from_numpy(vectors), last_states(model, rows))
        for text, vector in zip(TEXTS, vectors, strict=True):
            assert np.array_equal(embedder.embed([text], prompt=instruction)[0], vector)


def test_a_text_cut_at_its_start_keeps_what_is_around_it(tmp_path: Path) -> None:
    write_qwen3_vl(tmp_path)
    (row,) = load(tmp_path).tokenize(["x " * 40])
    save(tmp_path, "tokenizer_config.json", {"model_max_length": 60, "truncation_side": "left"})
    (cut,) = load(tmp_path).tokenize(["x " * 40])
    before = (
        len(tokenized(tmp_path, rendered("").partition("<|im_end|>\n<|im_start|>assistant")[0])) - 1
    )
    assert len(row) > 70 and cut == [*row[:before], *row[before - 60 :]]


def test_an_instruction_has_to_leave_room_for_a_text(tmp_path: Path) -> None:
    write_qwen3_vl(tmp_path)
    with pytest.raises(PromptTooLongError, match="takes all of the 128 tokens"):
        load(tmp_path).embed(["a"], prompt="any work " * 60)


def test_texts_are_read_as_by_sentence_transformers(tmp_path: Path) -> None:
    write_qwen3_vl(tmp_path)
    prompts = {"query": "Retrieve what answers.", "document": INSTRUCTION}
    write_layout(tmp_path, {"prompts": prompts, "default_prompt_name": "document"})
    write_processor(tmp_path)
    theirs = SentenceTransformer(str(tmp_path), device="cpu")
    assert theirs.max_seq_length == MAX_LENGTH
    (tmp_path / "preprocessor_config.json").unlink()  # not of this model
    embedder = load(tmp_path)
    for prompt in (None, prompts["query"], "Another."):
        encode: Any = theirs.encode
        expected = exactly(encode)(TEXTS, prompt=prompt, batch_size=1)
        assert_close(torch.from_numpy(embedder.embed(TEXTS, prompt=prompt)), expected)


def test_options_of_other_media_do_not_matter(tmp_path: Path) -> None:
    write_qwen3_vl(tmp_path)
    write_layout(tmp_path)
    before = ModelDescription.read(tmp_path).recipe
    path = tmp_path / "sentence_bert_config.json"
    options = json.loads(path.read_text(encoding="utf-8"))
    processing = {**options["processing_kwargs"], "image": {"do_resize": True}, "video": {"fps": 1}}
    options |= {"processing_kwargs": processing, "processor_kwargs": {"max_pixels": 4096}}
    save(tmp_path, path.name, options)
    assert ModelDescription.read(tmp_path).recipe == before


def test_a_mean_is_of_all_tokens_as_in_sentence_transformers(tmp_path: Path) -> None:
    write_qwen3_vl(tmp_path)
    write_layout(tmp_path)
    write_processor(tmp_path)
    pooling = {"pooling_mode": "mean", "embedding_dimension": 64, "include_prompt": False}
    save(tmp_path, "1_Pooling/config.json", pooling)
    theirs, prompt = SentenceTransformer(str(tmp_path), device="cpu"), "Find the opposite."
    encode: Any = theirs.encode
    expected = exactly(encode)(TEXTS, prompt=prompt, batch_size=1)
    (tmp_path / "preprocessor_config.json").unlink()  # not of this model
    assert_close(torch.from_numpy(load(tmp_path).embed(TEXTS, prompt=prompt)), expected)


def test_a_multi_vector_model_reads_no_messages(tmp_path: Path) -> None:
    write_qwen3_vl(tmp_path)
    write_layout(tmp_path)
    config = families.read(tmp_path).config
    with pytest.raises(ModelError, match=r"modality_config\.message"):
        TransformerOptions.read(tmp_path, "", config, multi_vector=True)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"processing_kwargs": {"text": {"padding": True}}}, r"processing_kwargs\.text"),
        ({"modality_config": {"text": METHOD, "message": {**MESSAGE, "format": "own"}}}, "format"),
        ({"processing_kwargs": {"chat_template": {"restore_suffix": False}}}, "restore_suffix"),
    ],
)
def test_other_messages_are_refused(options: dict[str, Any], named: str, tmp_path: Path) -> None:
    write_qwen3_vl(tmp_path)
    write_layout(tmp_path, **options)
    with pytest.raises(ModelError, match=named):
        ModelDescription.read(tmp_path)


def test_a_folder_whose_files_take_no_messages_reads_texts_alone(tmp_path: Path) -> None:
    model = write_qwen3_vl(tmp_path)
    write_layout(tmp_path, modality_config={"text": METHOD}, processing_kwargs=None)
    embedder, text = load(tmp_path), "the license"
    assert embedder.tokenize([text]) == [tokenized(tmp_path, text)]
    assert_close(
        torch.from_numpy(embedder.embed([text])), last_states(model, embedder.tokenize([text]))
    )


def test_a_chat_template_decides_the_fingerprint(tmp_path: Path) -> None:
    write_qwen3_vl(tmp_path)
    before = model_fingerprint.fingerprint(ModelDescription.read(tmp_path))
    assert tmp_path / "chat_template.json" in model_fingerprint.files(
        ModelDescription.read(tmp_path)
    )
    save(tmp_path, "chat_template.json", {"chat_template": "{{ messages[0].content[0].text }}"})
    with pytest.raises(ModelError, match="cannot format a text"):
        ModelDescription.read(tmp_path)
    template = "{% for m in messages %}{{ m.content[0].text }}<|im_end|>{% endfor %}"
    save(tmp_path, "chat_template.json", {"chat_template": template})
    assert model_fingerprint.fingerprint(ModelDescription.read(tmp_path)) != before
