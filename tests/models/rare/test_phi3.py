"""Tests of Phi-3 against transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedwell_models import Embedder, families
from embedwell_models.vectors import normalize
from tests.conftest import precisions
from tests.models.families.checkpoint import (
    Case,
    assert_case_refused,
    assert_equal_states,
    assert_same_bits,
    assert_same_when_renamed,
    reference,
    write,
)
from tests.models.families.files import edit
from tests.models.tiny import VOCABULARY, write_tokenizer

SPECIAL = {f"{name}_token_id": 1 for name in ("pad", "bos", "eos")}
SHORT = [1.0, 1.1, 1.5, 2.0, 3.0, 4.0]
LONGROPE = {
    **{"rope_type": "longrope", "rope_theta": 500.0, "partial_rotary_factor": 0.75},
    **{"short_factor": SHORT, "long_factor": [2 * factor for factor in SHORT]},
}
LENGTHS = {"max_position_embeddings": 96, "original_max_position_embeddings": 17}
LONG = {**SPECIAL, **LENGTHS, "num_key_value_heads": 2, "rope_parameters": LONGROPE}
CASES = [
    Case("phi3", LONG),
    Case("phi3", {**LONG, "rope_parameters": {**LONGROPE, "factor": 3.0}, "sliding_window": 5}),
    Case("phi3", {**LONG, "rope_parameters": {**LONGROPE, "attention_factor": 0.8}}),
    Case("phi3", {**SPECIAL, "sliding_window": 7, "rms_norm_eps": 0.05, "is_causal": False}),
    Case("phi3", {**SPECIAL, "num_key_value_heads": 1, "hidden_act": "gelu"}),
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: str(CASES.index(case)))
TEXTS = ["the license", "a copyright of this work, such as it is", "x", "you " * 30]


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


def test_every_precision_is_faithful_in_the_kernels(tmp_path: Path) -> None:
    factors = {"short_factor": SHORT * 2, "long_factor": [2 * factor for factor in SHORT * 2]}
    options = {**LONG, "rope_parameters": {**LONGROPE, **factors}}
    sizes = {"hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 192, "vocab_size": len(VOCABULARY)}
    model: Any = write(Case("phi3", options, sizes), tmp_path)
    write_tokenizer(tmp_path)
    exact = Embedder.load(tmp_path, dtype="float32")
    rows = [torch.tensor(row) for row in exact.tokenize(TEXTS)]
    assert max(map(len, rows)) > 17 > min(map(len, rows))
    states = torch.stack([each[-1][0].mean(dim=0) for each in reference(model, rows)])
    for dtype in precisions():
        embedder = Embedder.load(tmp_path, dtype=dtype)
        vectors = embedder.embed(TEXTS)
        cosines = (normalize(vectors) * normalize(states.numpy())).sum(axis=1)
        assert cosines.min() > {"float32": 0.999999}.get(dtype, 0.99), dtype
        for text, vector in zip(TEXTS, vectors, strict=True):
            assert np.array_equal(embedder.embed([text])[0], vector)


@pytest.mark.parametrize("name", ["su", "yarn", "longrope"])
def test_the_older_keys_of_longrope_say_the_same(name: str, tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    today = families.read(tmp_path)
    scaling = {key: LONGROPE[key] for key in ("short_factor", "long_factor")}
    others = {key: LONGROPE[key] for key in ("rope_theta", "partial_rotary_factor")}
    edit(tmp_path, "rope_parameters", rope_scaling={"type": name, **scaling}, **others)
    assert families.read(tmp_path) == today
    edit(tmp_path, "original_max_position_embeddings")
    assert families.read(tmp_path).config.attention.positions != today.config.attention.positions


def test_a_checkpoint_with_a_head_has_the_same_weights(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert_same_when_renamed(tmp_path, lambda name: f"model.{name}", ("lm_head.weight",))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0}}, "rope_type = 'linear'"),
        ({"rope_parameters": {**LONGROPE, "long_factor": SHORT[1:]}}, "6, 5 numbers"),
        ({"rope_parameters": {**LONGROPE, "long_factor": [0.0] * 6}}, "long_factor = .* above 0"),
        ({"original_max_position_embeddings": 1}, "original_max_position_embeddings = 1"),
        ({"original_max_position_embeddings": 4.5}, "original_max_position_embeddings = 4.5"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types"),
        ({"architectures": ["Phi3BiModel"]}, "architectures"),
    ],
)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    options: dict[str, Any], named: str, tmp_path: Path
) -> None:
    assert_case_refused(CASES[0], options, tmp_path, named)
