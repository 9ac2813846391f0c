"""Tests of T5Gemma 2 against transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import T5Gemma2ForConditionalGeneration

from embedwell_models import Embedder, families
from embedwell_models.checkpoint import weights
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import (
    assert_equal_states,
    assert_same_bits,
    assert_same_when_renamed,
    exact_means,
)
from tests.models.families.exact import assert_near
from tests.models.families.files import rename
from tests.models.kalm_reranker import configure, write_kalm_reranker

LENGTHS = (3, 40, 1, 17)


def encoder_of(folder: Path) -> Any:
    model: Any = T5Gemma2ForConditionalGeneration
    read = model.from_pretrained(folder, attn_implementation="eager")
    return read.eval().get_encoder().text_model


@pytest.mark.parametrize("window", [1, 6, 7])
@pytest.mark.full(after=2)
def test_every_state_of_the_encoder_is_that_of_transformers(window: int, tmp_path: Path) -> None:
    folder = write_kalm_reranker(tmp_path, sliding_window=window)
    assert_equal_states(encoder_of(folder), folder, LENGTHS)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    assert_same_bits(write_kalm_reranker(tmp_path), LENGTHS)


def test_the_encoder_alone_embeds_with_a_pooling(tmp_path: Path) -> None:
    folder = write_kalm_reranker(tmp_path)
    assert ModelDescription.read(folder, ModelOptions(pooling="mean")).spec.decoder is None
    embedder = Embedder.load(folder, device="cpu", dtype="float32", pooling="mean")
    ids = embedder.tokenize("who may copy the license of this work?")
    expected = exact_means(encoder_of(folder), [torch.tensor(ids)])
    assert_near(embedder.encode([ids], normalized=False), expected)


def test_later_names_of_the_encoder_are_the_same_weights(tmp_path: Path) -> None:
    folder = write_kalm_reranker(tmp_path)
    decoder = families.read(folder).decoder
    assert decoder is not None
    before = weights.load(folder, decoder.model)

    def later(name: str) -> str:
        inside = name.removeprefix("model.encoder.")
        own = inside == name or inside.startswith(("vision_tower", "multi_modal"))
        return name if own else f"model.encoder.text_model.{inside}"

    assert_same_when_renamed(folder, later)
    after = weights.load(folder, decoder.model)
    assert all(np.array_equal(after[name], array) for name, array in before.items())


def test_the_image_encoder_is_not_read(tmp_path: Path) -> None:
    folder = write_kalm_reranker(tmp_path)
    pairs = [("the license", "a copyright of this work")]
    before = Embedder.load(folder, device="cpu", dtype="float32").score(pairs)
    path, parts = folder / "model.safetensors", ("vision_tower", "multi_modal_projector")
    tensors = {
        name: torch.full_like(tensor, float("nan"))
        if any(part in name for part in parts)
        else tensor
        for name, tensor in load_file(path).items()
    }
    assert any(tensor.isnan().any() for tensor in tensors.values())
    save_file(tensors, path, {"format": "pt"})
    after = Embedder.load(folder, device="cpu", dtype="float32").score(pairs)
    assert np.array_equal(before, after)


def test_every_key_of_a_config_is_known(tmp_path: Path) -> None:
    assert families.read(write_kalm_reranker(tmp_path)).unread_keys == ()


def test_layers_of_the_decoder_are_named_as_in_the_file(tmp_path: Path) -> None:
    folder = write_kalm_reranker(tmp_path)
    decoder = families.read(folder).decoder
    assert decoder is not None
    missing = "model.decoder.layers.1.mlp.up_proj.weight"
    rename(folder, lambda name: "lm_head.other" if name == missing else name)
    named = missing.removeprefix("model.decoder.")
    with pytest.raises(ModelError, match=named.replace(".", r"\.")):
        weights.load(folder, decoder.model)


@pytest.mark.parametrize(
    ("part", "options"),
    [
        ("", {"architectures": ["T5Gemma2ForSequenceClassification"]}),
        ("", {"tie_word_embeddings": False}),
        ("decoder", {"hidden_size": 128}),
        ("decoder", {"vocab_size": 99}),
        ("decoder", {"attn_logit_softcapping": 50.0}),
        ("decoder", {"use_bidirectional_attention": True}),
    ],
)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    part: str, options: dict[str, Any], tmp_path: Path
) -> None:
    configure(write_kalm_reranker(tmp_path), part, **options)
    with pytest.raises(ModelError, match=next(iter(options))):
        families.read(tmp_path)
