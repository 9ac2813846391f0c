"""Weights as the library bitsandbytes stores them: int8, and the four-bit types NF4 and FP4."""

import json
from math import prod
from typing import Any

import numpy as np

from embedwell_formats.quantized.schemes import INTEGERS, Parts, Scheme
from embedwell_models.checkpoint.tables import LayerMatrix
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

_STATE = "weight.quant_state.bitsandbytes__"
_TYPES = ("nf4", "fp4")
_IGNORED = {  # how inputs are computed, and which layers stay in other types
    *("load_in_8bit", "load_in_4bit", "_load_in_8bit", "_load_in_4bit", "quant_method"),
    *("llm_int8_threshold", "llm_int8_skip_modules", "llm_int8_enable_fp32_cpu_offload"),
    *("llm_int8_has_fp16_weight", "bnb_4bit_compute_dtype", "bnb_4bit_quant_type"),
    "bnb_4bit_use_double_quant",
}


class BitsAndBytes(Scheme):
    """Scheme of bitsandbytes, whose files say everything about a layer."""

    endings = (
        *("SCB", "weight_format", "weight.absmax", "weight.quant_map"),
        *("weight.nested_absmax", "weight.nested_quant_map"),
        *(_STATE + kind for kind in _TYPES),
    )

    @classmethod
    def read(cls, options: JsonConfig) -> "BitsAndBytes":
        """Check the options; raises ModelError for one that is not supported."""
        options.require("bnb_4bit_quant_storage", "uint8")
        options.refuse_unknown({*_IGNORED, "bnb_4bit_quant_storage"})
        return cls()

    def weight(self, parts: Parts) -> tuple[str, LayerMatrix]:
        """Return type and weight of a layer; raises ModelError for one that lacks a part."""
        for kind in _TYPES:
            if _STATE + kind in parts:
                return kind.upper(), _four_bits(parts, kind)
        codes, largest = parts.integers("weight", "I8"), parts.floats("SCB")
        if "weight_format" in parts and parts.integers("weight_format", "U8").any():
            raise ModelError(f"{parts.name}: only rows are supported as weight_format of int8")

        def decode() -> Floats:
            numbers: Floats = codes * (largest[:, None] * np.float32(1 / 127))
            return numbers

        return INTEGERS[8], parts.matrix(codes.shape, decode)


def _four_bits(parts: Parts, kind: str) -> LayerMatrix:
    state = _state(parts, _STATE + kind)
    shape, block = tuple(map(int, state["shape"])), int(state["blocksize"])
    packed, values = parts.integers("weight", "U8"), parts.floats("weight.quant_map")

    def decode() -> Floats:
        codes = packed.reshape(-1, 1) >> np.array([4, 0], np.uint8) & np.uint8(15)
        numbers: Floats = values[codes.ravel()][: prod(shape)]
        numbers *= _largest(parts, state).repeat(block)[: len(numbers)]
        return numbers.reshape(shape)

    return parts.matrix(shape, decode)


def _largest(parts: Parts, state: dict[str, Any]) -> Floats:
    # The largest size in each block, which may itself be quantised in blocks.
    if "weight.nested_absmax" not in parts:
        return parts.floats("weight.absmax")
    codes = parts.integers("weight.absmax", "U8").ravel()
    scales = parts.floats("weight.nested_absmax").repeat(int(state["nested_blocksize"]))
    largest: Floats = parts.floats("weight.nested_quant_map")[codes] * scales[: len(codes)]
    return largest + np.float32(state["nested_offset"])


def _state(parts: Parts, name: str) -> dict[str, Any]:
    content = parts.integers(name, "U8").tobytes()
    try:
        state = json.loads(content)
        needed = {"shape", "blocksize"}
        if "weight.nested_absmax" in parts:
            needed |= {"nested_blocksize", "nested_offset"}
        if isinstance(state, dict) and needed <= state.keys():
            return state
    except ValueError:
        pass
    raise ModelError(f"{parts.name}: {name} is not the state of a layer")
