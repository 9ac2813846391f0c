"""Tests of NeoBERT against what is published of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embedwell_models import Embedder, families
from embedwell_models.errors import ModelError
from embedwell_models.vectors import normalize
from tests.conftest import precisions
from tests.models.families.checkpoint import (
    assert_published_states,
    assert_same_bits,
    encoder,
    texts,
)
from tests.models.families.files import assert_refused, assert_same_weights, edit, loaded, rename
from tests.models.rare.neobert import Reference, tensors
from tests.models.tiny import VOCABULARY, write_tokenizer

LAYERS, HEADS = 3, 4
TEXTS = ["the license", "a copyright of this work, such as it is", "x", "you " * 30]


def write(folder: Path, width: int = 48, inner: int = 64, **options: Any) -> Reference:
    """Save a model of random weights. inner: two thirds of intermediate_size, rounded up."""
    config = {
        **{"model_type": "neobert", "architectures": ["NeoBERTLMHead"], "vocab_size": 99},
        **{"hidden_size": width, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS},
        **{"intermediate_size": 3 * inner // 2 - 3, "max_length": 64, "norm_eps": 0.05},
        "auto_map": {"AutoConfig": "model.NeoBERTConfig", "AutoModel": "model.NeoBERT"},
        **options,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    named = tensors(width, inner, LAYERS, int(str(config["vocab_size"])))
    save_file(named, folder / "model.safetensors")
    return Reference(named, LAYERS, HEADS, eps=0.05)


def test_every_layer_equals_what_is_published(tmp_path: Path) -> None:
    reference = write(tmp_path)
    assert_published_states(reference, encoder(tmp_path), texts(99))


def test_a_text_is_the_same_bits_in_every_batch(tmp_path: Path) -> None:
    write(tmp_path)
    assert_same_bits(tmp_path)


def test_every_precision_is_faithful_in_the_kernels(tmp_path: Path) -> None:
    reference = write(tmp_path, width=128, inner=192, vocab_size=len(VOCABULARY))
    write_tokenizer(tmp_path)
    exact = Embedder.load(tmp_path, dtype="float32")
    expected = [reference(torch.tensor(row))[-1].mean(dim=0) for row in exact.tokenize(TEXTS)]
    for dtype in precisions():
        embedder = Embedder.load(tmp_path, dtype=dtype)
        vectors = embedder.embed(TEXTS)
        cosines = (normalize(vectors) * normalize(torch.stack(expected).numpy())).sum(axis=1)
        assert cosines.min() > {"float32": 0.999999}.get(dtype, 0.99), dtype
        for text, vector in zip(TEXTS, vectors, strict=True):
            assert np.array_equal(embedder.embed([text])[0], vector)


def test_a_text_ends_where_the_angles_of_its_own_code_do(tmp_path: Path) -> None:
    write(tmp_path)
    assert families.read(tmp_path).config.max_tokens == 64
    edit(tmp_path, "max_length")
    assert families.read(tmp_path).config.max_tokens == 1024


def test_a_checkpoint_with_a_head_has_the_same_weights(tmp_path: Path) -> None:
    write(tmp_path)
    before = loaded(tmp_path)
    rename(tmp_path, {"^": "model."})
    assert_same_weights(loaded(tmp_path), before)


def test_other_options_and_code_are_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path)
    others: dict[str, Any] = {"rope": False, "rms_norm": False, "hidden_act": "gelu", "ngpt": True}
    assert_refused(tmp_path, **others, auto_map={"AutoModel": "model.NormNeoBERT"})


def test_other_sizes_than_two_thirds_are_refused(tmp_path: Path) -> None:
    write(tmp_path)
    edit(tmp_path, intermediate_size=64)
    with pytest.raises(ModelError, match="shape"):
        loaded(tmp_path)
