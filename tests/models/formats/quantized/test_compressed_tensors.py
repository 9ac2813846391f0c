"""Weights of compressed-tensors are what their integers and scales mean."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from embedwell_models.description.footprint import Footprint
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from tests.models.quantized_files import (
    NVFP4_SIZES,
    assert_same_vectors,
    change,
    fp8_blocks,
    nibbles,
    nvfp4_columns,
    vectors,
    write_quantized,
)

COLUMNS = 16  # of a group
FLOAT4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group"}


def options(format: str, **weights: Any) -> dict[str, Any]:
    group = {
        "targets": ["Linear"],
        "weights": {"symmetric": True, "dynamic": False, "observer": "minmax", **weights},
        "input_activations": {"num_bits": 8, "dynamic": True, "strategy": "token"},
        "output_activations": None,
    }
    return {
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
        "format": format,
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
        "sparsity_config": {},
        "transform_config": {},
        "global_compression_ratio": 1.5,
        "version": "0.12.2",
        "config_groups": {"group_0": group},
    }


def by_channel(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    scale = (weight.abs().amax(1, keepdim=True) / 127).to(torch.bfloat16)
    codes = (weight / scale.float()).round().clamp(-128, 127)
    parts = {"weight": codes.to(torch.int8), "weight_scale": scale, "input_scale": scale[:1, :1]}
    return parts, codes * scale.float()


def by_group(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    groups = weight.reshape(len(weight), -1, COLUMNS)
    scale = groups.abs().amax(2) / 100
    zero = torch.arange(scale.numel()).reshape(scale.shape) % 7
    codes = (groups / scale[..., None]).round() + zero[..., None]
    parts = {"weight": codes.flatten(1).to(torch.int8), "weight_scale": scale}
    meant = ((codes - zero[..., None]) * scale[..., None]).flatten(1)
    return parts | {"weight_zero_point": zero.to(torch.int8)}, meant


def fp8(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    scale = weight.abs().max().reshape(1) / 448
    codes = (weight / scale).to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale": scale}, codes.float() * scale


def int4(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    groups = weight.reshape(len(weight), -1, COLUMNS)
    scale = groups.abs().amax(2) / 7
    codes = (groups / scale[..., None]).round().flatten(1)
    meant = codes * scale.repeat_interleave(COLUMNS, 1)
    parts = {"weight_packed": nibbles(codes + 8), "weight_scale": scale}
    return parts | {"weight_shape": torch.tensor(weight.shape)}, meant


def int4_with_zeros(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    # Zero points are packed along the rows; the order of the columns decides the groups.
    groups = torch.randperm(weight.shape[1], generator=torch.Generator().manual_seed(1)) // COLUMNS
    scale = torch.rand(len(weight), 64, generator=torch.Generator().manual_seed(2))
    scale = scale[:, : int(groups.max()) + 1] + 0.1
    zero = torch.arange(scale.numel()).reshape(scale.shape) % 13 - 8
    codes = (weight / scale[:, groups] + zero[:, groups]).round().clamp(-8, 7)
    parts = {
        "weight_packed": nibbles(codes + 8),
        "weight_scale": scale,
        "weight_zero_point": nibbles((zero + 8).T).T,
        "weight_g_idx": groups.to(torch.int32),
        "weight_shape": torch.tensor(weight.shape),
    }
    return parts, (codes - zero[:, groups]) * scale[:, groups]


def nvfp4(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    pairs, scale, tensor_scale, _ = nvfp4_columns(weight)
    inverse = (1 / tensor_scale).reshape(1)
    codes = torch.stack([pairs & 15, pairs >> 4], 2).flatten(1).long()
    step = (scale.float() / inverse).repeat_interleave(COLUMNS, 1)
    parts = {"weight_packed": pairs, "weight_scale": scale, "weight_global_scale": inverse}
    return parts | {"input_global_scale": inverse}, torch.cat([NVFP4_SIZES, -NVFP4_SIZES])[
        codes
    ] * step


def packed_int8(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    scale = weight.abs().amax(1, keepdim=True) / 127
    codes = (weight / scale).round()
    words = (codes + 128).to(torch.uint8).view(torch.int32)
    parts = {"weight_packed": words, "weight_scale": scale}
    return parts | {"weight_shape": torch.tensor(weight.shape)}, codes * scale


CASES = {
    "channel": (by_channel, options("int-quantized", num_bits=8, type="int", strategy="channel")),
    "group": (
        *(by_group,),
        options("int-quantized", num_bits=8, type="int", strategy="group", symmetric=False),
    ),
    "fp8": (fp8, options("float-quantized", num_bits=8, type="float", strategy="tensor")),
    "fp8 blocks": (
        *(fp8_blocks,),
        options("float-quantized", type="float", strategy="block", block_structure=[48, 48]),
    ),
    "int4": (
        *(int4,),
        options("pack-quantized", num_bits=4, type="int", strategy="group", group_size=COLUMNS),
    ),
    "int4 with zeros": (
        *(int4_with_zeros,),
        options("pack-quantized", num_bits=4, strategy="group", actorder="group"),
    ),
    "nvfp4": (
        *(nvfp4,),
        options(
            "nvfp4-pack-quantized",
            **FLOAT4,
            group_size=COLUMNS,
            scale_dtype="torch.float8_e4m3fn",
        ),
    ),
    "packed int8": (packed_int8, options("pack-quantized", num_bits=8, strategy="channel")),
}


@pytest.mark.parametrize("kind", ["bert", "qwen3"])
@pytest.mark.parametrize("case", CASES)
def test_vectors_are_those_of_the_weights_that_are_meant(
    tmp_path: Path, case: str, kind: str
) -> None:
    assert_same_vectors(*write_quantized(tmp_path, *CASES[case], kind))


@pytest.mark.parametrize(
    ("case", "name"), [("int4", "INT4"), ("channel", "INT8"), ("fp8", "F8_E4M3")]
)
def test_the_description_counts_weights_by_what_they_are_stored_as(
    tmp_path: Path, case: str, name: str
) -> None:
    quantized, plain = write_quantized(tmp_path, *CASES[case])
    description = ModelDescription.read(quantized)
    assert description.weights_format == "safetensors"
    assert description.stored_numbers[name] == 3 * (4 * 64 * 64 + 2 * 64 * 128)
    assert {*description.stored_numbers} == {name, "F32"}
    original = ModelDescription.read(plain)
    assert Footprint.of(description) == Footprint.of(original)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format": "mxfp4-pack-quantized"}, "format = 'mxfp4-pack-quantized' is not supported"),
        ({"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparsity_config.format"),
        ({"transform_config": {"config_groups": {"a": {}}}}, "transform_config"),
        ({"kv_cache_scheme": {"num_bits": 8}}, "kv_cache_scheme"),
        ({"quantization_status": "initialized"}, "quantization_status = 'initialized'"),
        ({"rotation": True}, "quantization_config.rotation = True is not known"),
        ({"config_groups": {"a": {"weights": {"num_bits": 3}}}}, "a.weights.num_bits = 3"),
        ({"config_groups": {"a": {"weights": FLOAT4 | {"group_size": 32}}}}, "group_size = 32"),
        ({"config_groups": {"a": {"weights": FLOAT4 | {"strategy": "group"}}}}, "strategy"),
        ({"config_groups": {"a": {"weights": {"codebook": 3}}}}, "weights.codebook = 3 is not"),
    ],
)
def test_other_options_are_refused_by_name(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    case, stated = CASES["channel"]
    quantized, _ = write_quantized(tmp_path, case, stated | changed)
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(quantized)


LAYER = "encoder.layer.1.output.dense."


def test_a_layer_that_lacks_a_part_is_refused_by_name(tmp_path: Path) -> None:
    quantized, _ = write_quantized(tmp_path, *CASES["int4"])
    change(quantized, lambda tensors: tensors.__delitem__(f"{LAYER}weight_scale"))
    with pytest.raises(ModelError, match=r"layer\.1\.output\.dense: .* lacks weight_scale"):
        vectors(quantized)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (torch.ones(64, 3), r"layer\.1\.output\.dense: its parts do not fit"),
        (torch.full((64, 1), float("nan")), r"layer\.1\.output\.dense\.weight has NaN"),
    ],
    ids=["shape", "NaN"],
)
def test_scales_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, scale: Tensor, message: str
) -> None:
    quantized, _ = write_quantized(tmp_path, *CASES["channel"])
    change(quantized, lambda tensors: tensors.update({f"{LAYER}weight_scale": scale}))
    with pytest.raises(ModelError, match=message):
        vectors(quantized)
