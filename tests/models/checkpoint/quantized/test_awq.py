"""Weights of AWQ are what their words mean."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from embedwell_models.checkpoint import weights
from embedwell_models.errors import ModelError
from embedwell_models.model_description import ModelDescription
from tests.models.quantized_files import assert_same_vectors, nibbles, write_quantized

OPTIONS: dict[str, Any] = {
    **{"quant_method": "awq", "bits": 4, "group_size": 16, "version": "gemm", "zero_point": True},
    "modules_to_not_convert": None,
}
OUTPUTS = [0, 2, 4, 6, 1, 3, 5, 7]  # output of each nibble of a word, from the lowest bits on


def interleaved(numbers: Tensor) -> Tensor:
    return nibbles(numbers.reshape(len(numbers), -1, 8)[..., OUTPUTS].flatten(1))


def quantize(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    rows, columns = weight.shape
    noise = torch.Generator().manual_seed(1)
    scales = (torch.rand(columns // 16, rows, generator=noise) / 10 + 0.05).to(torch.float16)
    zeros = torch.arange(scales.numel()).reshape(scales.shape) % 16
    spread, points = (each.repeat_interleave(16, 0).T for each in (scales.float(), zeros))
    codes = (weight / spread + points).round().clamp(0, 15)
    parts = {"qweight": interleaved(codes.T), "qzeros": interleaved(zeros), "scales": scales}
    return parts, (codes - points) * spread


@pytest.mark.parametrize("kind", ["bert", "qwen3"])
def test_vectors_are_those_of_the_weights_that_are_meant(tmp_path: Path, kind: str) -> None:
    assert_same_vectors(*write_quantized(tmp_path, quantize, OPTIONS, kind))


def test_outputs_are_interleaved(tmp_path: Path) -> None:
    quantized, _ = write_quantized(tmp_path, lambda weight: (word(weight), weight), OPTIONS)
    tensors = dict(weights.iterate_tensors(quantized))
    column = tensors["encoder.layer.0.attention.self.query.weight"].to_float32()[:, 5]
    assert np.array_equal(column[:8], [1, 5, 2, 6, 3, 7, 4, 8])


def word(weight: Tensor) -> dict[str, Tensor]:
    # The nibbles of each word are 1 to 8, from the lowest bits on.
    rows, columns = weight.shape
    return {
        "qweight": torch.full((columns, rows // 8), -2023406815, dtype=torch.int32),
        "qzeros": torch.zeros((1, rows // 8), dtype=torch.int32),
        "scales": torch.ones(1, rows),
    }


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"version": "gemv"}, "version = 'gemv' is not supported"),
        ({"zero_point": False}, "zero_point = False is not supported"),
        ({"rotation": 1}, "rotation = 1 is not known"),
    ],
)
def test_other_options_are_refused_by_name(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    quantized, _ = write_quantized(tmp_path, quantize, OPTIONS | changed)
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(quantized)
