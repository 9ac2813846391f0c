"""Tests of all versions of DeBERTa against transformers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    DebertaForSequenceClassification,
    DebertaV2ForMaskedLM,
    DebertaV2ForSequenceClassification,
)

from embedwell_models import families
from embedwell_models.errors import ModelError
from tests.models.families import compiled
from tests.models.families.checkpoint import (
    SIZES,
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    encoder,
    states,
    texts,
    write,
)
from tests.models.families.compiled import assert_kernels_are_faithful, needs_kernels

V3 = {  # as microsoft/deberta-v3-base has them, the buckets smaller
    "relative_attention": True,
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
    "max_position_embeddings": 48,
    "layer_norm_eps": 0.01,
}
V1 = {  # as microsoft/deberta-base has them
    "relative_attention": True,
    "pos_att_type": "c2p|p2c",
    "position_biased_input": False,
    "max_position_embeddings": 48,
    "layer_norm_eps": 0.01,
}
CASES = [
    Case("deberta", V1),
    Case("deberta", {**V1, "pos_att_type": ["c2p"], "max_relative_positions": 10}),
    Case("deberta", {**V1, "pos_att_type": ["p2c"], "type_vocab_size": 2}),
    Case("deberta", {**V1, "relative_attention": False, "position_biased_input": True}),
    Case("deberta-v2", V3),
    Case("deberta-v2", {**V3, "pos_att_type": ["c2p"]}),
    Case("deberta-v2", {**V3, "pos_att_type": ["p2c"], "norm_rel_ebd": "none"}),
    Case("deberta-v2", {**V3, "share_att_key": False, "position_buckets": 16}),
    Case("deberta-v2", {**V3, "share_att_key": False, "pos_att_type": ["p2c"]}),
    Case("deberta-v2", {**V3, "share_att_key": False, "pos_att_type": "c2p"}),
    Case("deberta-v2", {**V3, "position_buckets": -1, "max_relative_positions": 10}),
    Case("deberta-v2", {**V3, "position_biased_input": True, "type_vocab_size": 2}),
    Case("deberta-v2", {**V3, "relative_attention": False, "position_biased_input": True}),
    Case("deberta-v2", {**V3, "hidden_act": "gelu_new", "max_relative_positions": 20}),
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{CASES.index(case)}")


@cases
@pytest.mark.full(after=3)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
@pytest.mark.full(after=3)
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


@needs_kernels
@cases
@pytest.mark.full(after=3)
def test_the_kernels_alone_are_faithful_in_every_precision(case: Case, tmp_path: Path) -> None:
    model = write(replace(case, sizes=compiled.SIZES), tmp_path)
    assert_kernels_are_faithful(model, tmp_path)


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.full(after=1)
def test_the_encoder_of_a_language_model_is_read(legacy: bool, tmp_path: Path) -> None:
    model: Any = write(
        Case("deberta-v2", {**V3, "legacy": legacy}, model=DebertaV2ForMaskedLM), tmp_path
    )
    assert_equal_states(model.deberta, tmp_path)


@pytest.mark.parametrize(
    "case",
    [
        Case("deberta", V1, model=DebertaForSequenceClassification),
        Case("deberta-v2", V3, model=DebertaV2ForSequenceClassification),
    ],
    ids=str,
)
def test_the_encoder_of_a_classifier_is_read(case: Case, tmp_path: Path) -> None:
    model: Any = write(case, tmp_path)
    assert_equal_states(model.deberta, tmp_path)


def test_what_published_files_hold_besides_is_left_alone(tmp_path: Path) -> None:
    write(Case("deberta-v2", V3), tmp_path)
    path, rows = tmp_path / "model.safetensors", texts(SIZES["vocab_size"])
    expected = states(encoder(tmp_path), rows, 3)
    more = {
        "embeddings.position_ids": torch.arange(48)[None],
        "deberta.embeddings.position_embeddings.weight": torch.randn(48, 64),
        "lm_predictions.lm_head.bias": torch.randn(99),
        "mask_predictions.dense.weight": torch.randn(64, 64),
    }
    save_file({**load_file(path), **more}, path)
    for found, known in zip(states(encoder(tmp_path), rows, 3), expected, strict=True):
        assert torch.equal(found, known)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("conv_kernel_size", 3),
        ("embedding_size", 32),
        ("attention_head_size", 32),
        ("pos_att_type", "c2p|p2p"),
        ("hidden_act", "mish"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(
    key: str, value: object, tmp_path: Path
) -> None:
    write(Case("deberta-v2", V3), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(ModelError, match=key):
        families.read(tmp_path)


def test_talking_heads_of_the_first_version_are_refused(tmp_path: Path) -> None:
    assert_case_refused(Case("deberta", V1), {"talking_head": True}, tmp_path)
