"""Tests of Qwen3.5 for texts against transformers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedwell_models import families
from embedwell_models.config.layer_spec import AttentionSpec, DeltaNetSpec
from embedwell_models.encoder.batch import Batch
from embedwell_models.errors import ModelError
from tests.models.families import compiled
from tests.models.families.checkpoint import (
    SIZES,
    Case,
    assert_close,
    assert_equal_states,
    assert_refused,
    assert_same_bits,
    assert_same_weights,
    configure,
    encoder,
    texts,
    write,
)
from tests.models.families.compiled import assert_kernels_are_faithful, needs_kernels

TYPES = ["linear_attention", "full_attention", "linear_attention"]
LENGTHS = (1, 2, 3, 64, 65, 200, 17, 130)
DELTA = {
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16},
    **{"linear_value_head_dim": 24, "linear_conv_kernel_dim": 4},
}
SMALL = {**SIZES, **DELTA, "num_key_value_heads": 2, "head_dim": 32}
OTHERS = {
    **{"linear_num_key_heads": 3, "linear_num_value_heads": 3, "linear_conv_kernel_dim": 2},
    **{"rms_norm_eps": 0.05, "partial_rotary_factor": 0.5, "full_attention_interval": 2},
}
COMPILED = {
    **compiled.SIZES,
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 32},
    **{"linear_value_head_dim": 64, "num_key_value_heads": 1, "head_dim": 64},
}
CASES = [
    Case("qwen3_5_text", {"layer_types": TYPES}, SMALL),
    Case("qwen3_5_text", {"layer_types": TYPES, "is_causal": False}, SMALL),
    Case("qwen3_5_text", OTHERS, SMALL),
]
cases = pytest.mark.parametrize("case", CASES, ids=str)


@cases
def test_every_layer_equals_transformers(case: Case, tmp_path: Path) -> None:
    assert_equal_states(write(case, tmp_path), tmp_path, LENGTHS)


@cases
def test_a_text_is_the_same_bits_in_every_batch(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    assert_same_bits(tmp_path, LENGTHS)


@needs_kernels
@cases
def test_the_kernels_alone_are_faithful_in_every_precision(case: Case, tmp_path: Path) -> None:
    options = {key: value for key, value in case.options.items() if "num" not in key}
    compiled_case = replace(case, options=options, sizes=COMPILED)
    assert_kernels_are_faithful(write(compiled_case, tmp_path), tmp_path)


@pytest.mark.parametrize("case", CASES[:1], ids=str)
def test_tokens_that_are_not_attended_to_count_as_zeros(case: Case, tmp_path: Path) -> None:
    model: Any = write(case, tmp_path)
    rows = [torch.cat([row, torch.full((4,), 5)]) for row in texts(99, (3, 17))]
    batch = Batch.of([row.numpy() for row in rows]).without_attention_to_trailing(5)
    ours = encoder(tmp_path).states(batch, 3)
    for row, mine in zip(rows, batch.split(ours), strict=True):
        mask = torch.ones_like(row)
        mask[-4:] = 0
        with torch.inference_mode():
            theirs = model(input_ids=row[None], attention_mask=mask[None]).last_hidden_state
        assert_close(torch.from_numpy(mine), theirs[0])
