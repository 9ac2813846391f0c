"""Tests of encoders of M2M-100, such as SONAR's, against transformers."""

from pathlib import Path
from typing import Any

import pytest
from numpy.testing import assert_allclose
from transformers import M2M100ForConditionalGeneration, NllbTokenizer
from transformers.models.m2m_100.modeling_m2m_100 import (
    M2M100Encoder,
    M2M100SinusoidalPositionalEmbedding,
)

from embedwell_models import Embedder
from embedwell_models.positions.schemes import Sinusoidal
from embedwell_models.positions.tables import sinusoidal_table
from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.exact import assert_near, exactly
from tests.models.families.files import assert_refused

SIZES = {
    "vocab_size": 99,
    "d_model": 64,
    "encoder_layers": 3,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 96,
    "max_position_embeddings": 64,
}
CASES = [
    Case("m2m_100", {}, SIZES, model=M2M100Encoder),
    Case("m2m_100", {"scale_embedding": False}, SIZES, model=M2M100Encoder),
    Case("m2m_100", {"activation_function": "gelu"}, SIZES, model=M2M100Encoder),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_bits(tmp_path)


@pytest.mark.parametrize("width", [4, 7, 64])
def test_the_table_of_positions_is_that_of_transformers(width: int) -> None:
    expected = M2M100SinusoidalPositionalEmbedding(30, width, 1).weights.numpy()
    table = sinusoidal_table(Sinusoidal(halves=True, offset=2), 30, width)
    assert_allclose(table[1:], expected[2:32], atol=1e-5)
    assert not table[0].any()


def test_the_encoder_of_a_translation_model_has_its_vectors(tmp_path: Path) -> None:
    sizes = {**SIZES, "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 32}
    model = write(Case("m2m_100", {}, sizes, model=M2M100ForConditionalGeneration), tmp_path)
    assert_equal_states(model.get_encoder(), tmp_path)


def test_an_unknown_activation_is_refused(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_refused(tmp_path, activation_function="softmax")


@pytest.mark.parametrize("language", ["eng_Latn", "fra_Latn"])
def test_texts_have_the_token_of_the_tokenizers_language(language: str, tmp_path: Path) -> None:
    words = ["<s>", "<pad>", "</s>", "<unk>", "▁a", "▁b", "a", "b", "▁"]
    merges: Any = [("▁", "a"), ("▁", "b")]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = NllbTokenizer(vocab=vocabulary, merges=merges, src_lang=language)
    model = write(Case("m2m_100", {}, {**SIZES, "vocab_size": 300}, model=M2M100Encoder), tmp_path)
    tokenizer.save_pretrained(tmp_path)
    texts = ["a b", "b <pad> a"]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    mask = inputs["attention_mask"][..., None]

    @exactly
    def means() -> Any:
        return (model(**inputs).last_hidden_state * mask).sum(1) / mask.sum(1)

    assert_near(Embedder.load(tmp_path, dtype="float32").embed(texts), means())
