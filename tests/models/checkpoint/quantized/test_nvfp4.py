"""Weights in NVFP4 and in FP8 by NVIDIA's Model Optimizer are what their codes mean."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
from tests.models.quantized_files import (
    assert_same_vectors,
    change,
    nvfp4_columns,
    vectors,
    write_quantized,
)

OPTIONS: dict[str, Any] = {
    **{"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
    **{"kv_cache_scheme": {"num_bits": 8}, "producer": {"name": "modelopt", "version": "0.29"}},
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}},
}
LAYER = "encoder.layer.1.output.dense."


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
    options = OPTIONS | {"quant_algo": algorithm}
    assert_same_vectors(*write_quantized(tmp_path, quantize, options, kind))


def test_the_description_counts_weights_by_what_they_are_stored_as(tmp_path: Path) -> None:
    quantized, _ = write_quantized(tmp_path, nvfp4, OPTIONS)
    assert ModelDescription.read(quantized).stored_numbers["NVFP4"] == 3 * 32_768


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"quant_algo": "NVFP4_AWQ"}, "quant_algo = 'NVFP4_AWQ' is not supported"),
        ({"group_size": 32}, "group_size = 32 is not supported"),
        ({"rotation": 1}, "rotation = 1 is not known"),
    ],
)
def test_other_options_are_refused_by_name(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    quantized, _ = write_quantized(tmp_path, nvfp4, OPTIONS | changed)
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(quantized)


def test_scales_that_do_not_fit_are_refused_by_name(tmp_path: Path) -> None:
    quantized, _ = write_quantized(tmp_path, nvfp4, OPTIONS)
    scale = torch.ones(64, 3).to(torch.float8_e4m3fn)
    change(quantized, lambda tensors: tensors.update({f"{LAYER}weight_scale": scale}))
    with pytest.raises(ModelError, match=r"layer\.1\.output\.dense: its parts do not fit"):
        vectors(quantized)
