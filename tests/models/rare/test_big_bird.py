"""Tests of BigBird against transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BigBirdForMaskedLM, BigBirdForQuestionAnswering

from embedwell_models import Embedder, families
from embedwell_models.errors import ModelError
from embedwell_models.vectors import normalize
from tests.conftest import precisions
from tests.models.families.checkpoint import (
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    encoder,
    reference,
    states,
    texts,
    write,
)
from tests.models.families.files import edit
from tests.models.tiny import VOCABULARY, write_tokenizer

FULL = {"attention_type": "original_full"}
SPARSE = {"block_size": 4, "num_random_blocks": 1, "max_position_embeddings": 64}
LIMIT = 28
TEXTS = ["the license", "a copyright of this work, such as it is", "x", "you " * 30]
CASES = [
    Case("big_bird", FULL),
    Case("big_bird", {**FULL, "rescale_embeddings": True, "layer_norm_eps": 0.05}),
    Case("big_bird", {**FULL, "hidden_act": "relu"}, model=BigBirdForMaskedLM),
    Case("big_bird", FULL, model=BigBirdForQuestionAnswering),
    Case("big_bird", SPARSE),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


def lengths(case: Case) -> tuple[int, ...]:
    return (3, LIMIT, 1, 17) if case.options == SPARSE else (3, 40, 1, 17)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path, lengths(case))


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path, lengths(case))


def test_sparse_attention_takes_the_texts_for_which_it_is_full(tmp_path: Path) -> None:
    model: Any = write(CASES[-1], tmp_path)
    assert families.read(tmp_path).config.max_tokens == LIMIT
    (row,) = texts(99, (LIMIT + 1,))
    assert model(input_ids=row[None]).last_hidden_state.shape == (1, LIMIT + 1, 64)
    assert model.attention_type == "block_sparse"  # which one token less would have made full
    model(input_ids=row[None, 1:])
    assert model.attention_type == "original_full"
    edit(tmp_path, attention_type="original_full")
    assert families.read(tmp_path).config.max_tokens == 64
    assert len(states(encoder(tmp_path), [row], 3)[0]) == LIMIT + 1


def test_a_table_of_few_positions_limits_sparse_attention(tmp_path: Path) -> None:
    write(Case("big_bird", {**SPARSE, "max_position_embeddings": 20}), tmp_path)
    assert families.read(tmp_path).config.max_tokens == 20


def test_a_table_of_other_positions_is_refused(tmp_path: Path) -> None:
    write(CASES[-1], tmp_path)
    edit(tmp_path, max_position_embeddings=LIMIT)
    with pytest.raises(ModelError, match=r"position_embeddings\.weight has the shape"):
        encoder(tmp_path)


def test_every_precision_is_faithful_in_the_kernels(tmp_path: Path) -> None:
    sizes = {"hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 192, "vocab_size": len(VOCABULARY)}
    case = Case("big_bird", {**FULL, "rescale_embeddings": True}, sizes)
    model: Any = write(case, tmp_path)
    write_tokenizer(tmp_path)
    exact = Embedder.load(tmp_path, dtype="float32")
    rows = [torch.tensor(row) for row in exact.tokenize(TEXTS)]
    expected = torch.stack([each[-1][0].mean(dim=0) for each in reference(model, rows)])
    for dtype in precisions():
        vectors = Embedder.load(tmp_path, dtype=dtype).embed(TEXTS)
        cosines = (normalize(vectors) * normalize(expected.numpy())).sum(axis=1)
        assert cosines.min() > {"float32": 0.999999}.get(dtype, 0.99), dtype


@pytest.mark.parametrize(
    "options",
    [{"attention_type": "sparse"}, {"use_bias": False}, {"is_decoder": True}, {"block_size": 0}],
    ids=str,
)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    options: dict[str, Any], tmp_path: Path
) -> None:
    assert_case_refused(CASES[-1], options, tmp_path)
