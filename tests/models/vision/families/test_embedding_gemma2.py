"""Tests of EmbeddingGemma 2 against transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoConfig, PreTrainedTokenizerFast

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.cpu_backend.support import why_unsupported
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.model_files.chat_template import FILE as TEMPLATE
from tests.conftest import precisions
from tests.models.families.checkpoint import (
    SIZES,
    Case,
    assert_close,
    attentions,
    encoder,
    exact_means,
    reference,
    states,
    texts,
    write,
)
from tests.models.families.exact import expected_list
from tests.models.families.files import (
    assert_refused,
    assert_same_weights,
    change,
    edit,
    loaded,
    rename,
)
from tests.models.model_files.options import NORMALIZE, POOLING, TRANSFORMER
from tests.models.tiny import VOCABULARY, write_tokenizer

SMALL: dict[str, Any] = {
    **SIZES,
    "num_hidden_layers": 5,
    "head_dim": 24,
    "global_head_dim": 32,
    "sliding_window": 4,
}
SMALL |= {
    "rms_norm_eps": 0.05,
    "sliding_window_pattern": 2,
    "hidden_size_per_layer_input": 40,
    "embedding_dim": 48,
}
COMPILED = {**SMALL, "intermediate_size": 128, "head_dim": 32, "global_head_dim": 64}
COMPILED |= {"hidden_size_per_layer_input": 64}
LEAST = {"float32": 0.999999, "bfloat16": 0.998, "int8": 0.99}
TEXT = "embedding_gemma2_text"
WHOLE: dict[str, Any] = {"text_config": SMALL, "vision_config": None, "audio_config": None}
WHOLE |= {"image_token_id": 90, "video_token_id": 91, "audio_token_id": 92}
CASES = [
    Case(TEXT, {}, SMALL),
    Case(TEXT, {"attention_bias": True, "hidden_activation": "silu", "pad_token_id": 7}, SMALL),
    Case(TEXT, {"num_global_key_value_heads": 4, "sliding_window_pattern": 6}, SMALL),
]
OTHER_MEDIA = Case("embedding_gemma2", {}, WHOLE)
cases = pytest.mark.parametrize("case", [*CASES, OTHER_MEDIA], ids=str)
JOINED = (
    "{% for message in messages %}{% for part in message.content %}{{ part.text }}{% endfor %}"
    "{% endfor %}"
)
TEXTS = ["the license", "a copyright of this work, such as it is", "x", "you " * 30]


def write_model(case: Case, folder: Path) -> Any:
    """Save a model whose layers are scaled."""
    model = write(case, folder)
    for index, layer in enumerate(text_model(model).layers):
        layer.layer_scalar.fill_(0.6 + 0.3 * index)
    model.save_pretrained(folder)
    return model


def text_model(model: Any) -> Any:
    return getattr(model, "language_model", model)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    model, rows = write_model(case, tmp_path), texts(99)
    ours, projection = encoder(tmp_path), text_model(model).embedding_projection.weight.detach()

    def by_layer(either: Any) -> list[Tensor]:
        found = reference(either, rows)
        return [torch.cat([each[layer][0] for each in found]) for layer in range(6)]

    for layer, theirs in enumerate(expected_list(model, by_layer)):
        mine = torch.cat(states(ours, rows, layer))
        assert_close(F.linear(mine, projection) if layer == 5 else mine, theirs)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write_model(case, tmp_path)
    ours, rows = encoder(tmp_path), texts(99)
    for row, among in zip(rows, states(ours, rows, 5), strict=True):
        assert torch.equal(states(ours, [row], 5)[0], among)


@pytest.mark.parametrize("case", [CASES[0], OTHER_MEDIA], ids=str)
def test_a_text_has_the_mean_of_its_projected_states(case: Case, tmp_path: Path) -> None:
    sizes = {**SMALL, "vocab_size": len(VOCABULARY)}
    whole = {**WHOLE, "text_config": sizes}
    model = write_model(
        Case(case.model_type, {}, whole if case is OTHER_MEDIA else sizes), tmp_path
    )
    write_tokenizer(tmp_path)
    embedder = Embedder.load(tmp_path, device="cpu", dtype="float32")
    rows = [torch.tensor(row) for row in embedder.tokenize(TEXTS)]
    expected = exact_means(model, rows)
    vectors = embedder.embed(TEXTS)
    assert_close(torch.from_numpy(vectors), expected)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert np.array_equal(embedder.embed([text])[0], vector)
    ids = rows[1].tolist()
    assert np.array_equal(embedder.hidden([ids], "token")[0], embedder.hidden([ids], 0)[0])


def write_sentence_model(folder: Path) -> Any:
    """Save what sentence-transformers writes of a model with messages of texts and other media."""
    sizes = {**SMALL, "vocab_size": len(VOCABULARY)}
    model = write_model(Case("embedding_gemma2", {}, {**WHOLE, "text_config": sizes}), folder)
    write_tokenizer(folder)
    method = {"method": "forward", "method_output_name": "last_hidden_state"}
    message = {**method, "format": "structured"}
    files: dict[str, Any] = {
        "modules.json": [TRANSFORMER, POOLING, NORMALIZE],
        "1_Pooling/config.json": {"pooling_mode": "mean", "embedding_dimension": 48},
        "config_sentence_transformers.json": {"prompts": {"query": "such of "}},
        "sentence_bert_config.json": {
            "modality_config": {"text": method, "image": method, "message": message}
        },
        "processor_config.json": {"processor_class": "EmbeddingGemma2Processor"},
    }
    (folder / "1_Pooling").mkdir()
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / TEMPLATE).write_text(JOINED, encoding="utf-8")
    return model


def test_texts_in_messages_have_the_vectors_of_texts(tmp_path: Path) -> None:
    model = write_sentence_model(tmp_path)
    embedder = Embedder.load(tmp_path, device="cpu", dtype="float32")
    vectors = torch.from_numpy(embedder.embed([f"such of {text}" for text in TEXTS]))
    processor = PreTrainedTokenizerFast.from_pretrained(tmp_path)
    rows = [torch.tensor(processor(f"such of {text}")["input_ids"]) for text in TEXTS]
    means = torch.stack([each[-1][0].mean(dim=0) for each in reference(model, rows)])
    assert_close(F.normalize(vectors), F.normalize(means))
    assert embedder.dim == 48


def test_texts_in_messages_that_are_texts_themselves_are_refused(tmp_path: Path) -> None:
    write_sentence_model(tmp_path)
    method = {"method": "forward", "method_output_name": "last_hidden_state"}
    options = {"modality_config": {"text": method, "message": {**method, "format": "flat"}}}
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps(options), encoding="utf-8")
    with pytest.raises(ModelError, match=r"modality_config\.message"):
        ModelDescription.read(tmp_path)


@pytest.mark.parametrize("file", ["processor_config.json", TEMPLATE])
def test_texts_in_other_messages_are_refused(file: str, tmp_path: Path) -> None:
    write_sentence_model(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(ModelError, match=r"modality_config\.message"):
        ModelDescription.read(tmp_path)


def test_other_encoders_of_the_checkpoint_are_not_read(tmp_path: Path) -> None:
    write_model(OTHER_MEDIA, tmp_path)
    before = loaded(tmp_path)
    towers = ("vision_tower", "audio_tower", "embed_vision", "embed_audio")
    others = {f"{tower}.layers.0.norm.weight": torch.zeros(3) for tower in towers}
    change(tmp_path, lambda tensors: tensors | others)
    assert_same_weights(loaded(tmp_path), before)
    rename(tmp_path, {"vision_tower": "other"})
    with pytest.raises(ModelError, match=r"other\.layers"):
        loaded(tmp_path)


def test_what_a_config_leaves_out_is_what_transformers_takes(tmp_path: Path) -> None:
    AutoConfig.for_model(TEXT).save_pretrained(tmp_path)
    today = families.read(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": TEXT}), encoding="utf-8")
    assert families.read(tmp_path) == today
    sizes = [(each.window, each.kv_heads, each.head_size) for each in attentions(tmp_path)]
    assert sizes == ([(512, 2, 256)] * 5 + [(None, 1, 512)]) * 4


def test_placeholders_of_other_media_are_padding_tokens(tmp_path: Path) -> None:
    model = write_model(OTHER_MEDIA, tmp_path)
    row = torch.tensor([5, 90, 8, 91, 92, 0])
    before = (tmp_path / "model.safetensors").read_bytes()
    (mine,), ((*_, theirs),) = states(encoder(tmp_path), [row], 0), reference(model, [row])
    assert torch.equal(mine[1], mine[5])
    assert (tmp_path / "model.safetensors").read_bytes() == before
    (last,) = states(encoder(tmp_path), [row], 5)
    assert_close(
        F.linear(last, model.language_model.embedding_projection.weight.detach()), theirs[0]
    )
    edit(tmp_path, image_token_id=89, video_token_id=99)
    (mine,) = states(encoder(tmp_path), [row], 0)
    assert not torch.equal(mine[1], mine[5])
    edit(tmp_path, text_config={**SMALL, "model_type": TEXT, "pad_token_id": 99})
    with pytest.raises(ModelError, match=r"text_config\.pad_token_id = 99"):
        families.read(tmp_path)


def test_a_text_encoder_alone_has_no_placeholders(tmp_path: Path) -> None:
    write_model(CASES[0], tmp_path)
    edit(tmp_path, image_token_id=90)
    (mine,) = states(encoder(tmp_path), [torch.tensor([90, 0])], 0)
    assert not torch.equal(mine[0], mine[1])


def test_other_options_are_refused_by_name(tmp_path: Path) -> None:
    write_model(CASES[0], tmp_path)
    others: dict[str, Any] = {"hidden_activation": "mish", "rope_scaling": {"factor": 2.0}}
    assert_refused(tmp_path, **others, layer_types=["chunked_attention"] * 5)
    sizes = {"1": {"head_dim": 32, "num_key_value_heads": 1}, "3": {"head_dim": 8}}
    for layers in (sizes, {"5": {"head_dim": 8}}, {"4": {"sliding_window": 8}}):
        assert_refused(tmp_path, per_layer_config=layers)
    edit(tmp_path, per_layer_config={key: {"num_key_value_heads": 3} for key in ("1", "3", "4")})
    with pytest.raises(ModelError, match="3 key heads"):
        families.read(tmp_path)


@pytest.mark.parametrize("kind", ["linear", "proportional"])
def test_scaled_positions_are_refused(kind: str, tmp_path: Path) -> None:
    write_model(CASES[0], tmp_path)
    scaled = {"rope_type": kind, "rope_theta": 1e6, "factor": 2.0}
    edit(tmp_path, rope_parameters={"full_attention": scaled})
    with pytest.raises(ModelError, match=f"rope_type = '{kind}' is not supported"):
        families.read(tmp_path)


def test_another_text_encoder_is_refused(tmp_path: Path) -> None:
    write_model(OTHER_MEDIA, tmp_path)
    edit(tmp_path, text_config={**SMALL, "model_type": "gemma4_text"})
    with pytest.raises(ModelError, match=r"text_config\.model_type = 'gemma4_text'"):
        families.read(tmp_path)


def test_the_last_layer_has_no_window_whatever_the_file_says(tmp_path: Path) -> None:
    write_model(CASES[0], tmp_path)
    before = families.read(tmp_path)
    edit(tmp_path, layer_types=["sliding_attention", "full_attention"] * 2 + ["sliding_attention"])
    assert families.read(tmp_path) == before
    wide = {"head_dim": 32, "num_key_value_heads": 1}
    edit(tmp_path, per_layer_config={"01": wide, "03": wide, "04": wide})
    assert families.read(tmp_path) == before


def test_sizes_of_layers_may_be_those_of_all(tmp_path: Path) -> None:
    same = {"global_head_dim": 24, "num_global_key_value_heads": 2, "num_key_value_heads": 2}
    model = write_model(Case(TEXT, {}, {**SMALL, **same}), tmp_path)
    edit(tmp_path, per_layer_config={})
    row = torch.arange(6, 40)
    (mine,), ((*_, theirs),) = states(encoder(tmp_path), [row], 5), reference(model, [row])
    assert_close(F.linear(mine, model.embedding_projection.weight.detach()), theirs[0])


def test_rerankers_are_refused(tmp_path: Path) -> None:
    write_model(CASES[0], tmp_path)
    edit(tmp_path, architectures=["EmbeddingGemma2ForSequenceClassification"])
    with pytest.raises(ModelError, match="classification head of embedding_gemma2"):
        ModelDescription.read(tmp_path)


def test_the_compiled_encoder_is_faithful_in_every_precision(tmp_path: Path) -> None:
    sizes = {**COMPILED, "vocab_size": len(VOCABULARY)}
    model = write_model(Case(TEXT, {}, sizes), tmp_path)
    write_tokenizer(tmp_path)
    spec = families.read(tmp_path)
    assert not why_unsupported(spec.config, weights.load(tmp_path, spec))
    for dtype in precisions():
        embedder = Embedder.load(tmp_path, device="cpu", dtype=dtype)
        rows = [torch.tensor(row) for row in embedder.tokenize(TEXTS)]
        expected = exact_means(model, rows)
        vectors = torch.from_numpy(embedder.embed(TEXTS))
        if dtype == "float32":
            assert_close(vectors, expected)
        assert float(F.cosine_similarity(vectors, expected.values).min()) >= LEAST[dtype]
        for text, vector in zip(TEXTS, vectors, strict=True):
            assert np.array_equal(embedder.embed([text])[0], vector)
