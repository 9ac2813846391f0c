"""Tests of T5 and mT5 against transformers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file
from transformers import (
    MT5EncoderModel,
    T5EncoderModel,
    T5ForConditionalGeneration,
    T5ForTokenClassification,
    UMT5EncoderModel,
)

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.errors import ModelError
from tests.models.families.checkpoint import Case, assert_equal_states, assert_same_bits, write
from tests.models.families.compiled import assert_kernels_are_faithful, needs_kernels
from tests.models.tiny import VOCABULARY

SIZES = {
    "vocab_size": 99,
    "d_model": 64,
    "d_kv": 24,
    "d_ff": 96,
    "num_layers": 3,
    "num_heads": 4,
    "layer_norm_epsilon": 0.05,
}
COMPILED = {**SIZES, "vocab_size": len(VOCABULARY), "d_kv": 32, "d_ff": 128}
CASES = [
    Case("t5", {}, SIZES, model=T5EncoderModel),
    Case("t5", {"feed_forward_proj": "gated-gelu"}, SIZES, model=T5EncoderModel),
    Case("t5", {"feed_forward_proj": "gated-silu"}, SIZES, model=T5EncoderModel),
    Case("t5", {"feed_forward_proj": "gelu"}, SIZES, model=T5EncoderModel),
    Case(
        "t5",
        {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20},
        SIZES,
        model=T5EncoderModel,
    ),
    Case("mt5", {}, SIZES, model=MT5EncoderModel),
    Case("umt5", {}, SIZES, std=0.1, model=UMT5EncoderModel),
    Case("umt5", {}, SIZES, model=UMT5EncoderModel),
    Case("umt5", {"feed_forward_proj": "relu"}, SIZES, model=UMT5EncoderModel),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
@pytest.mark.full(after=4)
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path)


@cases
@pytest.mark.full(after=3)
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path)


@needs_kernels
@pytest.mark.parametrize("case", [case for case in CASES if case.model_type == "umt5"], ids=str)
def test_the_kernels_alone_are_faithful_in_every_precision(case: Case, tmp_path: Path) -> None:
    assert_kernels_are_faithful(write(replace(case, sizes=COMPILED), tmp_path), tmp_path)


@pytest.mark.parametrize("model", [T5ForConditionalGeneration, T5ForTokenClassification])
def test_the_encoder_of_a_model_with_a_head_or_decoder_is_read(model: type, tmp_path: Path) -> None:
    whole = write(Case("t5", {"num_labels": 3}, SIZES, model=model), tmp_path)
    assert_equal_states(getattr(whole, "transformer", whole).encoder, tmp_path)


@pytest.mark.parametrize("names", [["encoder.embed_tokens.weight"], ["shared.weight"], []])
def test_the_token_table_has_either_name_or_both(names: list[str], tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    table = next(tensors.pop(name) for name in list(tensors) if tensors[name].shape[0] == 99)
    both = ["encoder.embed_tokens.weight", "shared.weight"]
    save_file({**tensors, **{name: table.clone() for name in names or both}}, path)
    loaded = weights.load(tmp_path, families.read(tmp_path))
    assert np.array_equal(loaded["token_table"], table)


def test_a_length_that_is_not_told_is_512(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    assert families.read(tmp_path).config.max_positions == 512
    write(Case("t5", {"n_positions": 128}, SIZES, model=T5EncoderModel), tmp_path)
    assert families.read(tmp_path).config.max_positions == 128


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("is_decoder", True),
        ("is_gated_act", True),
        ("dense_act_fn", "silu"),
        ("feed_forward_proj", "polynomial"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(
    key: str, value: object, tmp_path: Path
) -> None:
    write(CASES[0], tmp_path)
    path = tmp_path / "config.json"
    known = json.loads(path.read_text())
    if key == "feed_forward_proj":
        known = {name: known[name] for name in known if name not in ("dense_act_fn",)}
    path.write_text(json.dumps({**known, key: value}))
    with pytest.raises(ModelError, match=str(value)):
        families.read(tmp_path)


def test_a_bias_for_other_buckets_than_config_tells_is_refused(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    path = tmp_path / "config.json"
    known = json.loads(path.read_text())
    path.write_text(json.dumps({**known, "relative_attention_num_buckets": 64}))
    with pytest.raises(ModelError, match=r"encoder\.block\.0\.layer\.0\.\S+bias\.weight has"):
        weights.load(tmp_path, families.read(tmp_path))
