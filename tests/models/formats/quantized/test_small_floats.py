"""Weights in FP8 and NVFP4 are what their codes mean."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from embedwell_formats.quantized.small_floats import FP8_VALUES
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from tests.models.quantized_files import (
    assert_same_vectors,
    change,
    fp8_blocks,
    nvfp4_columns,
    vectors,
    write_quantized,
)

BLOCKS: dict[str, Any] = {
    **{"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic"},
    "weight_block_size": [48, 48],
}

MODEL_OPT: dict[str, Any] = {
    **{"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
    **{"kv_cache_scheme": {"num_bits": 8}, "producer": {"name": "modelopt", "version": "0.29"}},
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}},
}
LAYER = "encoder.layer.1.output.dense."


def test_each_code_has_the_value_that_torch_gives_it() -> None:
    codes = torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn)
    assert np.array_equal(FP8_VALUES, codes.float().numpy(), equal_nan=True)


@pytest.mark.parametrize("kind", ["bert", "qwen3"])
def test_vectors_are_those_of_the_blocks_that_are_meant(tmp_path: Path, kind: str) -> None:
    def quantize(weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        parts, meant = fp8_blocks(weight)
        return {"weight": parts["weight"], "weight_scale_inv": parts["weight_scale"]}, meant

    assert_same_vectors(*write_quantized(tmp_path, quantize, BLOCKS, kind))


def nvfp4(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    pairs, scale, tensor_scale, meant = nvfp4_columns(weight)
    parts = {"weight": pairs, "weight_scale": scale, "weight_scale_2": tensor_scale}
    ignored = dict.fromkeys(("input_scale", "k_scale", "v_scale"), torch.tensor(0.5))
    return parts | ignored, meant


def fp8(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    scale = weight.abs().max() / 448
    codes = (weight / scale).to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale": scale, "input_scale": scale}, codes.float() * scale


@pytest.mark.parametrize("kind", ["bert", "qwen3"])
@pytest.mark.parametrize("algorithm", ["NVFP4", "FP8"])
def test_vectors_are_those_of_the_weights_that_are_meant(
    tmp_path: Path, algorithm: str, kind: str
) -> None:
    quantize = {"NVFP4": nvfp4, "FP8": fp8}[algorithm]
    options = MODEL_OPT | {"quant_algo": algorithm}
    assert_same_vectors(*write_quantized(tmp_path, quantize, options, kind))


def test_the_description_counts_weights_by_what_they_are_stored_as(tmp_path: Path) -> None:
    quantized, _ = write_quantized(tmp_path, nvfp4, MODEL_OPT)
    assert ModelDescription.read(quantized).stored_numbers["NVFP4"] == 3 * 32_768


def test_scales_that_do_not_fit_are_refused_by_name(tmp_path: Path) -> None:
    quantized, _ = write_quantized(tmp_path, nvfp4, MODEL_OPT)
    scale = torch.ones(64, 3).to(torch.float8_e4m3fn)
    change(quantized, lambda tensors: tensors.update({f"{LAYER}weight_scale": scale}))
    with pytest.raises(ModelError, match=r"layer\.1\.output\.dense: its parts do not fit"):
        vectors(quantized)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (BLOCKS | {"fmt": "e5m2"}, "fmt = 'e5m2' is not supported"),
        (BLOCKS | {"weight_block_size": [0, 1]}, r"weight_block_size = \[0, 1\] is not supported"),
        (BLOCKS | {"rotation": 1}, "rotation = 1 is not known"),
        (MODEL_OPT | {"quant_algo": "NVFP4_AWQ"}, "quant_algo = 'NVFP4_AWQ' is not supported"),
        (MODEL_OPT | {"group_size": 32}, "group_size = 32 is not supported"),
        (MODEL_OPT | {"rotation": 1}, "rotation = 1 is not known"),
    ],
)
def test_other_options_are_refused_by_name(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    quantized, _ = write_quantized(tmp_path, fp8_blocks, changed)
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(quantized)
