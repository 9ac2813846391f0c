"""Tests of MobileBERT against transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import MobileBertForMaskedLM

from embedwell_models import families
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.batch import Batch
from embedwell_models.errors import ModelError
from tests.models.classic.cases import MOBILEBERT
from tests.models.classic.cases import MOBILEBERT_SIZES as SMALL
from tests.models.families.checkpoint import (
    Case,
    assert_close,
    assert_equal_states,
    custom_layers_encoder,
    exact_means,
    exact_states,
    states,
    texts,
    write,
)
from tests.models.families.files import assert_refused, assert_same_weights, edit, loaded, rename
from tests.models.tiny import VOCABULARY, write_tokenizer

CASES = [
    MOBILEBERT,
    Case("mobilebert", {"num_feedforward_networks": 1, "hidden_act": "gelu"}, SMALL),
    Case("mobilebert", {"type_vocab_size": 1, "intra_bottleneck_size": 20}, SMALL),
    Case("mobilebert", {}, SMALL, model=MobileBertForMaskedLM),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)
TEXTS = ["the license", "a copyright of this work, such as it is", "x", "you " * 30]


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    model = write(case, tmp_path)
    assert_equal_states(model, tmp_path, ours=custom_layers_encoder(tmp_path))


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    ours, rows = custom_layers_encoder(tmp_path), texts(99)
    for row, among in zip(rows, states(ours, rows, 3), strict=True):
        assert torch.equal(states(ours, [row], 3)[0], among)


def test_tokens_that_are_not_attended_to_have_no_weight(tmp_path: Path) -> None:
    model: Any = write(CASES[0], tmp_path)
    rows = [torch.cat([row, torch.full((4,), 5)]) for row in texts(99, (3, 17))]
    batch = Batch.of([row.numpy() for row in rows]).without_attention_to_trailing(5)
    ours = custom_layers_encoder(tmp_path).states(batch, 3)
    for row, mine in zip(rows, batch.split(ours), strict=True):
        mask = torch.ones_like(row)
        mask[-4:] = 0
        theirs = exact_states(model, row, attention_mask=mask[None])
        assert_close(torch.from_numpy(mine), theirs)


def test_a_text_has_the_mean_of_its_states_through_the_facade(tmp_path: Path) -> None:
    sizes = {**SMALL, "vocab_size": len(VOCABULARY)}
    model: Any = write(Case("mobilebert", {}, sizes), tmp_path)
    write_tokenizer(tmp_path)
    embedder = Embedder.load(tmp_path, device="cpu")
    rows = [torch.tensor(row) for row in embedder.tokenize(TEXTS)]
    expected = exact_means(model, rows)
    vectors = embedder.embed(TEXTS)
    assert_close(torch.from_numpy(vectors), expected)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert np.array_equal(embedder.embed([text])[0], vector)
    parts = [
        embedder.hidden([rows[0].tolist()], part)[0] for part in ("token", "position", "segment")
    ]
    with torch.inference_mode():
        first = model.embeddings.LayerNorm(torch.from_numpy(np.sum(parts, axis=0)))
    assert_close(torch.from_numpy(embedder.hidden([rows[0].tolist()], 0)[0]), first)


def test_a_checkpoint_with_a_head_has_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    before = loaded(tmp_path)
    rename(tmp_path, {"^": "mobilebert."})
    assert_same_weights(loaded(tmp_path), before)


def test_what_a_config_leaves_out_is_what_transformers_takes(tmp_path: Path) -> None:
    usual: dict[str, Any] = {"hidden_act": "relu", "num_feedforward_networks": 4}
    usual |= {"embedding_size": 128, "intra_bottleneck_size": 128, "layer_norm_eps": 1e-12}
    write(Case("mobilebert", usual), tmp_path)
    today = families.read(tmp_path)
    edit(tmp_path, *usual)
    assert families.read(tmp_path) == today
    assert today.config.feed_forward.activation == "relu"
    assert today.config.attention.head_size == 32


def test_other_options_are_refused_by_name(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    others: dict[str, Any] = {"use_bottleneck": False, "use_bottleneck_attention": True}
    others |= {"key_query_shared_bottleneck": False, "normalization_type": "layer_norm"}
    assert_refused(tmp_path, **others, trigram_input=False, is_decoder=True)
    edit(tmp_path, intra_bottleneck_size=30)
    with pytest.raises(ModelError, match="intra_bottleneck_size"):
        families.read(tmp_path)
