"""Weights of GPTQ and AWQ are what their words mean."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from embedwell_models.checkpoint import weights
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from tests.models.quantized_files import Quantize, assert_same_vectors, nibbles, write_quantized

GPTQ: dict[str, Any] = {
    **{"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": True, "sym": False},
    **{"damp_percent": 0.1, "checkpoint_format": "gptq", "lm_head": False},
}

AWQ: dict[str, Any] = {
    **{"quant_method": "awq", "bits": 4, "group_size": 16, "version": "gemm", "zero_point": True},
    "modules_to_not_convert": None,
}
OUTPUTS = [0, 2, 4, 6, 1, 3, 5, 7]  # output of each nibble of a word, from the lowest bits on


def gptq(
    weight: Tensor, bits: int = 4, added: int = 1, ordered: bool = False
) -> tuple[dict[str, Tensor], Tensor]:
    rows, columns = weight.shape
    noise = torch.Generator().manual_seed(1)
    groups = torch.arange(columns) // 16
    groups = groups[torch.randperm(columns, generator=noise)] if ordered else groups
    scales = (torch.rand(columns // 16, rows, generator=noise) / 100 + 0.01).to(torch.float16)
    zeros = torch.arange(scales.numel()).reshape(scales.shape) % 2**bits
    spread = scales.float()[groups].T
    codes = (weight / spread + zeros[groups].T).round().clamp(0, 2**bits - 1)
    stored = (zeros - added) % 2**bits
    parts = {
        "qweight": words(codes, bits).T,
        "qzeros": words(stored, bits),
        "scales": scales,
        "g_idx": groups.to(torch.int32),
    }
    return parts, (codes - zeros[groups].T) * spread


def words(numbers: Tensor, bits: int) -> Tensor:
    # A stream of bits, the lowest ones first; numbers of three bits may be in two words.
    stream = ((numbers.to(torch.uint8)[..., None].numpy() >> np.arange(bits)) & 1).astype(np.uint8)
    packed = np.packbits(stream.reshape(len(numbers), -1), axis=1, bitorder="little")
    return torch.from_numpy(packed.view("<i4").copy())


def interleaved(numbers: Tensor) -> Tensor:
    return nibbles(numbers.reshape(len(numbers), -1, 8)[..., OUTPUTS].flatten(1))


def awq(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    rows, columns = weight.shape
    noise = torch.Generator().manual_seed(1)
    scales = (torch.rand(columns // 16, rows, generator=noise) / 10 + 0.05).to(torch.float16)
    zeros = torch.arange(scales.numel()).reshape(scales.shape) % 16
    spread, points = (each.repeat_interleave(16, 0).T for each in (scales.float(), zeros))
    codes = (weight / spread + points).round().clamp(0, 15)
    parts = {"qweight": interleaved(codes.T), "qzeros": interleaved(zeros), "scales": scales}
    return parts, (codes - points) * spread


CASES: dict[str, tuple[Quantize, dict[str, Any], str]] = {
    "first": (gptq, GPTQ, "qwen3"),
    "ordered": (lambda weight: gptq(weight, ordered=True), GPTQ, "qwen3"),
    "second": (
        *(lambda weight: gptq(weight, added=0),),
        *({**GPTQ, "checkpoint_format": "gptq_v2"}, "qwen3"),
    ),
    **{
        f"int{bits}": (partial(gptq, bits=bits), {**GPTQ, "bits": bits}, "qwen3")
        for bits in (2, 3, 8)
    },
    **{f"awq of {kind}": (awq, AWQ, kind) for kind in ("bert", "qwen3")},
}


@pytest.mark.parametrize("case", CASES)
def test_vectors_are_those_of_the_weights_that_are_meant(tmp_path: Path, case: str) -> None:
    assert_same_vectors(*write_quantized(tmp_path, *CASES[case]))


def test_the_first_input_is_in_the_lowest_bits(tmp_path: Path) -> None:
    quantized, _ = write_quantized(tmp_path, lambda weight: (gptq_word(weight), weight), GPTQ)
    tensors = dict(weights.iterate_tensors(quantized))
    row = tensors["encoder.layer.0.attention.self.query.weight"].to_float32()[5]
    assert np.array_equal(row[:8], [1, 2, 3, 4, 5, 6, 7, 8])


def gptq_word(weight: Tensor) -> dict[str, Tensor]:
    # Zero points of 0, which the first order stores as 15; columns 0 to 7 hold 1 to 8.
    rows, columns = weight.shape
    return {
        "qweight": torch.full((columns // 8, rows), -2023406815, dtype=torch.int32),
        "qzeros": torch.full((1, rows // 8), -1, dtype=torch.int32),
        "scales": torch.ones(1, rows),
    }


def test_outputs_are_interleaved(tmp_path: Path) -> None:
    quantized, _ = write_quantized(tmp_path, lambda weight: (awq_word(weight), weight), AWQ)
    tensors = dict(weights.iterate_tensors(quantized))
    column = tensors["encoder.layer.0.attention.self.query.weight"].to_float32()[:, 5]
    assert np.array_equal(column[:8], [1, 5, 2, 6, 3, 7, 4, 8])


def awq_word(weight: Tensor) -> dict[str, Tensor]:
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
        (GPTQ | {"bits": 5}, "bits = 5 is not supported"),
        (GPTQ | {"checkpoint_format": "marlin"}, "checkpoint_format = 'marlin' is not supported"),
        (GPTQ | {"rotation": "hadamard"}, "rotation = 'hadamard' is not known"),
        (AWQ | {"version": "gemv"}, "version = 'gemv' is not supported"),
        (AWQ | {"zero_point": False}, "zero_point = False is not supported"),
        (AWQ | {"rotation": 1}, "rotation = 1 is not known"),
    ],
)
def test_other_options_are_refused_by_name(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    quantized, _ = write_quantized(tmp_path, gptq, changed)
    with pytest.raises(ModelError, match=message):
        ModelDescription.read(quantized)
