"""Weights in FP8 with a scale for each block are what their codes mean."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from embedwell_models.checkpoint.quantized.fp8 import VALUES
from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
from tests.models.quantized_files import assert_same_vectors, fp8_blocks, write_quantized

OPTIONS: dict[str, Any] = {
    **{"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic"},
    "weight_block_size": [48, 48],
}


def test_each_code_has_the_value_that_torch_gives_it() -> None:
    codes = torch.arange(256).to(torch.uint8).view(torch.float8_e4m3fn)
    assert np.array_equal(VALUES, codes.float().numpy(), equal_nan=True)


@pytest.mark.parametrize("kind", ["bert", "qwen3"])
def test_vectors_are_those_of_the_weights_that_are_meant(tmp_path: Path, kind: str) -> None:
    def quantize(weight: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        parts, meant = fp8_blocks(weight)
        return {"weight": parts["weight"], "weight_scale_inv": parts["weight_scale"]}, meant

    assert_same_vectors(*write_quantized(tmp_path, quantize, OPTIONS, kind))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"fmt": "e5m2"}, "fmt = 'e5m2' is not supported"),
        ({"weight_block_size": [0, 1]}, r"weight_block_size = \[0, 1\] is not supported"),
        ({"rotation": 1}, "rotation = 1 is not known"),
    ],
)
def test_other_options_are_refused_by_name(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    quantized, _ = write_quantized(tmp_path, fp8_blocks, OPTIONS | changed)
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(quantized)
