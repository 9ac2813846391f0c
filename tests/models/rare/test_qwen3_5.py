"""Tests of Qwen3.5 for texts against transformers."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3_5ForConditionalGeneration, Qwen3_5TextConfig

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.config.layer_spec import AttentionSpec, DeltaNetSpec
from embedwell_models.cpu_backend import library
from embedwell_models.cpu_backend.encoder import KernelEncoder
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.cpu_backend.layer_weights import LayerWeights
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.encoder.batch import Batch
from tests.models.families import compiled
from tests.models.families.checkpoint import (
    SIZES,
    Case,
    assert_case_refused,
    assert_close,
    assert_equal_states,
    assert_same_bits,
    assert_same_when_renamed,
    encoder,
    exact_states,
    states,
    texts,
    write,
)
from tests.models.families.compiled import assert_kernels_are_faithful, needs_kernels
from tests.models.families.files import edit
from tests.models.qwen3_vl import save

TYPES = ["linear_attention", "full_attention", "linear_attention"]
LENGTHS = (1, 2, 3, 5, 7, 64, 65, 200, 17, 130)
DELTA = {
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16},
    **{"linear_value_head_dim": 24, "linear_conv_kernel_dim": 4},
}
ROPE = {"rope_type": "default", "rope_theta": 10_000.0}
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


def kernel_encoder(folder: Path) -> KernelEncoder:
    """Load our encoder in the kernels."""
    spec, isa = families.read(folder), library.best_isa("float32")
    assert isa is not None
    loaded = weights.load(folder, spec)
    layers = LayerWeights(spec.config, loaded, isa, Packing("float32"))
    return KernelEncoder(InputTables.of(spec.config, loaded), layers, None)


@pytest.mark.parametrize(
    "sizes",
    [pytest.param(SMALL, id="torch"), pytest.param(COMPILED, id="kernels", marks=needs_kernels)],
)
def test_tokens_that_are_not_attended_to_count_as_zeros(
    sizes: dict[str, Any], tmp_path: Path
) -> None:
    model: Any = write(replace(CASES[0], sizes=sizes), tmp_path)
    rows = [torch.cat([row, torch.full((4,), 5)]) for row in texts(sizes["vocab_size"], (3, 17))]
    batch = Batch.of([row.numpy() for row in rows]).without_attention_to_trailing(5)
    ours = (encoder if sizes is SMALL else kernel_encoder)(tmp_path).states(batch, 3)
    for row, mine in zip(rows, batch.split(ours), strict=True):
        mask = torch.ones_like(row)
        mask[-4:] = 0
        theirs = exact_states(model, row, attention_mask=mask[None])
        assert_close(torch.from_numpy(mine), theirs)


VISION = {
    **{"depth": 1, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48},
    **{"out_hidden_size": 64, "num_position_embeddings": 16},
}
WHOLE = Case(
    "qwen3_5",
    {},
    {"text_config": {**SMALL, "layer_types": TYPES}, "vision_config": VISION},
    model=Qwen3_5ForConditionalGeneration,
)


@pytest.mark.parametrize("causal", [True, False])
def test_texts_of_a_model_of_images_have_its_states(causal: bool, tmp_path: Path) -> None:
    text = {**WHOLE.sizes["text_config"], "is_causal": causal}
    model: Any = write(replace(WHOLE, sizes={**WHOLE.sizes, "text_config": text}), tmp_path)
    for mine, row in zip(states(encoder(tmp_path), texts(99), 3), texts(99), strict=True):
        assert_close(mine, exact_states(model.model, row))


def test_other_parts_of_a_published_model_are_not_read(tmp_path: Path) -> None:
    write(WHOLE, tmp_path)
    assert_same_when_renamed(tmp_path, str, ("mtp.fc.weight", "mtp.layers.0.mlp.up_proj.weight"))
    assert_same_when_renamed(tmp_path, lambda name: name.removeprefix("model."))


def test_published_options_are_read(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    before = families.read(tmp_path)
    edit(
        tmp_path,
        **{"attn_output_gate": True, "mamba_ssm_dtype": "float32", "mlp_only_layers": []},
        **{"mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False},
        **{"full_attention_interval": 4, "output_gate_type": "swish"},
    )
    assert families.read(tmp_path) == before
    assert before.unread_keys == ()
    kinds = [type(layer.mixer) for layer in before.config.layers]
    assert kinds == [DeltaNetSpec, AttentionSpec, DeltaNetSpec]


def test_missing_options_are_those_of_transformers(tmp_path: Path) -> None:
    stated = json.loads(Qwen3_5TextConfig(rope_parameters={**ROPE}).to_json_string(use_diff=False))
    save(tmp_path, "config.json", stated)
    before = families.read(tmp_path)
    optional = {"layer_types", "num_key_value_heads", "head_dim", *DELTA}
    required = {key: value for key, value in stated.items() if key not in optional}
    save(tmp_path, "config.json", {**required, "rope_parameters": ROPE})
    assert families.read(tmp_path) == before


def test_the_share_of_rotated_features_may_be_next_to_the_rotations(tmp_path: Path) -> None:
    write(CASES[2], tmp_path)
    before = families.read(tmp_path)
    edit(tmp_path, rope_parameters=ROPE)
    assert families.read(tmp_path) != before
    edit(tmp_path, partial_rotary_factor=0.5)
    assert families.read(tmp_path) == before


@pytest.mark.parametrize(
    "options",
    [
        {"layer_types": ["sliding_attention"] * 3},
        {"layer_types": TYPES[:2]},
        {"attn_output_gate": False},
        {"attention_bias": True},
        {"hidden_act": "gelu"},
        {"output_gate_type": "sigmoid"},
        {"linear_num_key_heads": 3},
        {"linear_conv_kernel_dim": 0},
        {"architectures": ["OwnModel"]},
        {"model_type": "qwen3_5_moe_text"},
    ],
    ids=str,
)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    options: dict[str, object], tmp_path: Path
) -> None:
    named = "3 key heads" if "linear_num_key_heads" in options else ""
    assert_case_refused(CASES[0], options, tmp_path, named)


def test_experts_are_refused_by_name(tmp_path: Path) -> None:
    experts = {"text_config": {"model_type": "qwen3_5_moe_text"}}
    assert_case_refused(WHOLE, experts, tmp_path, r"text_config\.model_type")
