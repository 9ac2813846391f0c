"""Tests of DPR, either encoder, against transformers."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DPRContextEncoder, DPRQuestionEncoder

from embedwell_models import Embedder
from tests.models.families.checkpoint import (
    SIZES,
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    write,
)
from tests.models.families.exact import assert_near, expected
from tests.models.tiny import VOCABULARY, write_tokenizer

CASES = [
    Case("dpr", {"layer_norm_eps": 0.05}, model=DPRContextEncoder),
    Case("dpr", {"hidden_act": "relu"}, model=DPRQuestionEncoder),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    model = write(case, tmp_path)
    assert_equal_states(model.base_model.bert_model, tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


@cases
def test_a_vector_is_the_output_of_transformers(case: Case, tmp_path: Path) -> None:
    model = write(replace(case, sizes={**SIZES, "vocab_size": len(VOCABULARY)}), tmp_path)
    write_tokenizer(tmp_path)
    embedder = Embedder.load(tmp_path, device="cpu", dtype="float32")
    texts = ["the license", "x", "you " * 30]
    for ids, vector in zip(embedder.tokenize(texts), embedder.embed(texts), strict=True):
        row = torch.tensor([ids])
        exact = expected(model, partial(_pooled, row=row))
        assert_near(vector, exact)


def _pooled(model: Any, row: Tensor) -> Tensor:
    pooled: Tensor = model(input_ids=row).pooler_output[0]
    return pooled


def test_a_projection_is_refused(tmp_path: Path) -> None:
    assert_case_refused(CASES[0], {"projection_dim": 32}, tmp_path)
