"""Tests of Nomic's mixture of experts against what is published of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from embedwell_models import Embedder, families
from embedwell_models.checkpoint import weights
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import (
    assert_published_states,
    assert_same_bits,
    encoder,
    published_states,
    texts,
)
from tests.models.families.compiled import needs_kernels
from tests.models.families.exact import assert_near
from tests.models.families.files import assert_refused
from tests.models.families.nomic_experts import Reference, tensors
from tests.models.tiny import VOCABULARY, write_tokenizer

LAYERS, EXPERTS = 4, 5


def write(
    folder: Path, top: int = 2, width: int = 48, inner: int = 40, heads: int = 4, **options: Any
) -> Reference:
    """Save a model of random weights."""
    config = {
        **{"model_type": "nomic_bert", "vocab_size": 99, "n_embd": width, "n_layer": LAYERS},
        **{"n_head": heads, "n_inner": inner, "n_positions": 512, "activation_function": "gelu"},
        **{"rotary_emb_fraction": 1.0, "type_vocab_size": 1, "moe_every_n_layers": 2},
        **{"num_experts": EXPERTS, "moe_top_k": top, "moe_normalize_expert_weights": False},
        **options,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    rows = int(str(config["vocab_size"]))
    named = tensors(width, inner, LAYERS, rows, EXPERTS)
    save_file(named, folder / "model.safetensors")
    return Reference(named, LAYERS, heads, experts=EXPERTS, top=top)


@pytest.mark.full(after=1)
@pytest.mark.parametrize("top", [1, 2, 5])
def test_every_layer_equals_what_is_published(top: int, tmp_path: Path) -> None:
    reference = write(tmp_path, top)
    assert_published_states(reference, encoder(tmp_path), texts(99))


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(tmp_path)
    assert_same_bits(tmp_path)


def test_other_mixtures_are_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path)
    assert_refused(
        tmp_path,
        moe_normalize_expert_weights=True,
        expert_choice_router=True,
        num_shared_experts=1,
        moe_top_k=6,
    )


def test_every_precision_of_this_machine_computes_experts(tmp_path: Path) -> None:
    # Of fewer experts than all, rounding in earlier layers would exchange some.
    write(tmp_path, top=EXPERTS, width=64, inner=128, heads=2, vocab_size=len(VOCABULARY))
    write_tokenizer(tmp_path)
    embedder = Embedder.load(tmp_path, device="cpu", dtype="auto", pooling="mean")
    assert all(0.98 < trial.cosine < 1.0 for trial in embedder.trials[1:])


@needs_kernels
def test_the_kernels_alone_compute_experts(tmp_path: Path) -> None:
    reference = write(tmp_path, width=64, inner=128, heads=2, vocab_size=len(VOCABULARY))
    write_tokenizer(tmp_path)
    embedder = Embedder.load(tmp_path, device="cpu", dtype="float32", pooling="mean")
    assert embedder.why_torch is None
    rows = texts(len(VOCABULARY))
    for layer, expected in enumerate(published_states(reference, rows)):
        hidden = embedder.hidden([row.numpy() for row in rows], layer)
        assert_near(np.concatenate(hidden), expected)


@pytest.mark.parametrize("name", ["router.layer.weight", "experts.mlp.w2", "experts.bias"])
def test_a_missing_tensor_of_the_experts_is_refused(name: str, tmp_path: Path) -> None:
    write(tmp_path)
    named = load_file(tmp_path / "model.safetensors")
    del named[f"encoder.layers.3.mlp.{name}"]
    save_file(named, tmp_path / "model.safetensors")
    with pytest.raises(
        ModelError, match=rf"the checkpoint lacks \['encoder\.layers\.3\.mlp\.{name}'"
    ):
        weights.load(tmp_path, families.read(tmp_path))
