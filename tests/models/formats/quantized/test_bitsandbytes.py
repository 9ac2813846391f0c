"""Weights of bitsandbytes are what their codes and scales mean."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from tests.models.quantized_files import assert_same_vectors, change, vectors, write_quantized

INT8 = {
    **{"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_threshold": 6.0},
    **{"bnb_4bit_quant_storage": "uint8", "bnb_4bit_quant_type": "fp4"},
}
FOUR = {**INT8, "load_in_8bit": False, "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
# Uneven, so that a wrong order of the two halves of a byte shows.
VALUES = torch.tensor(
    [-1.0, -0.7, -0.5, -0.4, -0.3, -0.2, -0.1, 0, *(i / 9 + 0.1 for i in range(8))]
)
BLOCK = 64


def int8(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    largest = weight.abs().amax(1)
    codes = (weight * 127 / largest[:, None]).round()
    parts = {"weight": codes.to(torch.int8), "SCB": largest, "weight_format": torch.tensor(0)}
    parts["weight_format"] = parts["weight_format"].to(torch.uint8)
    return parts, codes * (largest * torch.tensor(1 / 127))[:, None]


def four_bits(weight: Tensor, kind: str, nested: bool = False) -> tuple[dict[str, Tensor], Tensor]:
    blocks = weight.reshape(-1, BLOCK)
    largest = blocks.abs().amax(1)
    state: dict[str, Any] = {"quant_type": kind, "blocksize": BLOCK, "dtype": "float32"}
    state["shape"] = list(weight.shape)
    parts = {"weight.quant_map": VALUES}
    if nested:
        table = torch.linspace(-1, 1, 256) ** 3
        codes = torch.arange(len(largest)) * 37 % 256
        sizes = torch.rand(-(-len(codes) // 16), generator=torch.Generator().manual_seed(1))
        state |= {"nested_blocksize": 16, "nested_dtype": "float32", "nested_offset": 1.25}
        largest = torch.stack([table[code] * sizes[i // 16] for i, code in enumerate(codes)]) + 1.25
        parts |= {"weight.nested_absmax": sizes, "weight.nested_quant_map": table}
        parts["weight.absmax"] = codes.to(torch.uint8)
    else:
        parts["weight.absmax"] = largest
    codes = ((blocks / largest[:, None])[..., None] - VALUES).abs().argmin(-1)
    pairs = codes.reshape(-1, 2)
    parts["weight"] = (pairs[:, :1] * 16 + pairs[:, 1:]).to(torch.uint8)
    content = torch.frombuffer(bytearray(json.dumps(state).encode()), dtype=torch.uint8)
    parts[f"weight.quant_state.bitsandbytes__{kind}"] = content
    return parts, (VALUES[codes] * largest[:, None]).reshape(weight.shape)


CASES = {
    "int8": (int8, INT8),
    "nf4": (lambda weight: four_bits(weight, "nf4"), FOUR),
    "fp4": (lambda weight: four_bits(weight, "fp4"), {**FOUR, "bnb_4bit_quant_type": "fp4"}),
    "nested": (
        *(lambda weight: four_bits(weight, "nf4", nested=True),),
        {**FOUR, "bnb_4bit_use_double_quant": True, "bnb_4bit_compute_dtype": "bfloat16"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_vectors_are_those_of_the_weights_that_are_meant(tmp_path: Path, case: str) -> None:
    assert_same_vectors(*write_quantized(tmp_path, *CASES[case]))


def test_a_decoder_in_four_bits_is_described_and_served(tmp_path: Path) -> None:
    quantized, plain = write_quantized(tmp_path, *CASES["nf4"], "qwen3")
    assert_same_vectors(quantized, plain)
    stored = ModelDescription.read(quantized).stored_numbers
    assert stored["NF4"] == 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128)


def test_other_options_are_refused_by_name(tmp_path: Path) -> None:
    stated = {**FOUR, "bnb_4bit_quant_storage": "bfloat16"}
    quantized, _ = write_quantized(tmp_path, CASES["nf4"][0], stated)
    with pytest.raises(ModelError, match="bnb_4bit_quant_storage = 'bfloat16' is not supported"):
        ModelDescription.read(quantized)


LAYER = "encoder.layer.1.output.dense."


@pytest.mark.parametrize(
    ("case", "part", "value", "message"),
    [
        ("int8", "weight_format", torch.tensor(2, dtype=torch.uint8), "weight_format of int8"),
        ("int8", "SCB", torch.ones(3), "do not fit"),
        ("nf4", "weight.absmax", torch.ones(3), "do not fit"),
        (
            *("nf4", "weight.quant_state.bitsandbytes__nf4", torch.ones(3, dtype=torch.uint8)),
            "not the state of a layer",
        ),
    ],
    ids=["order", "scales", "blocks", "state"],
)
def test_parts_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, case: str, part: str, value: Tensor, message: str
) -> None:
    quantized, _ = write_quantized(tmp_path, *CASES[case])
    change(quantized, lambda tensors: tensors.update({LAYER + part: value}))
    with pytest.raises(ModelError, match=rf"layer\.1\.output\.dense: .*{message}"):
        vectors(quantized)
