"""Tests of ESM-2 and ESM-1b against transformers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import EsmForMaskedLM, EsmModel

from embedwell_models import families
from tests.models.families.checkpoint import (
    SIZES,
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    write,
)

ROTARY = {
    **{"position_embedding_type": "rotary", "pad_token_id": 1, "rope_theta": 100.0},
    "layer_norm_eps": 0.05,
}
DROPOUT = {"token_dropout": True, "mask_token_id": SIZES["vocab_size"] - 1}
ESM2 = Case("esm", {**ROTARY, **DROPOUT, "max_position_embeddings": 1026})
CASES = [
    Case("esm", {**ROTARY, "emb_layer_norm_before": True}),
    ESM2,
    Case("esm", {**DROPOUT, "pad_token_id": 1, "emb_layer_norm_before": True}),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


def test_a_checkpoint_with_a_head_is_read(tmp_path: Path) -> None:
    whole = write(replace(ESM2, model=EsmForMaskedLM), tmp_path)
    assert_equal_states(whole.esm, tmp_path)


NAME = "rotary_embeddings.inv_freq"


@pytest.mark.parametrize("older", [True, False])
def test_frequencies_count_as_the_checkpoint_has_them(older: bool, tmp_path: Path) -> None:
    write(ESM2, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (name,) = (name for name in tensors if name.endswith(NAME))
    rounded = tensors.pop(name).to(torch.bfloat16).to(torch.float32)
    names = [f"encoder.layer.{i}.attention.self.{NAME}" for i in range(3)] if older else [NAME]
    stored = {name: rounded.clone() for name in names}
    save_file({**tensors, **stored}, tmp_path / "model.safetensors", {"format": "pt"})
    model: Any = EsmModel.from_pretrained(tmp_path, attn_implementation="eager")
    assert torch.equal(model.rotary_embeddings.inv_freq, rounded)
    assert_equal_states(model.train(False), tmp_path)


def test_the_mask_on_which_the_scale_depends_has_no_vector(tmp_path: Path) -> None:
    write(ESM2, tmp_path)
    assert families.read(tmp_path).config.vocab_size == SIZES["vocab_size"] - 1


@pytest.mark.parametrize(
    "options",
    [{"is_folding_model": True}, {"position_embedding_type": "relative"}, {"mask_token_id": 7}],
)
def test_what_is_not_implemented_is_refused(options: dict[str, object], tmp_path: Path) -> None:
    assert_case_refused(ESM2, options, tmp_path)
