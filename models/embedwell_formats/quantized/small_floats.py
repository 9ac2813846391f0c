"""Weights in small floating-point numbers.

FP8 (E4M3) has a scale for each block, as in DeepSeek's and Qwen's files, or one. NVFP4 (E2M1, four
bits) has a scale in FP8 for each 16 columns and one for all.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from embedwell_formats.quantized.schemes import Parts, Scheme, spread
from embedwell_models.checkpoint.formats import FP8
from embedwell_models.checkpoint.tables import LayerMatrix
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.vectors import Floats

_IGNORED_BY_FP8 = (  # which layers stay in other types, and how inputs are rounded
    *("activation_scheme", "modules_to_not_convert", "ignored_layers", "dequantize"),
    "modules_to_convert",
)
NVFP4 = "NVFP4"
NVFP4_COLUMNS = 16
_NVFP4_SIZES = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
_NVFP4_VALUES = np.array([*_NVFP4_SIZES, *(-size for size in _NVFP4_SIZES)], np.float32)
_ALGORITHMS = (NVFP4, f"W4A16_{NVFP4}", "FP8")
_IGNORED_BY_MODEL_OPT = {  # how inputs are rounded, and which layers stay in other types
    *("quant_method", "config_groups", "ignore", "exclude_modules", "producer"),
    *("weights", "input_activations"),
    # A pass over a text keeps no cache.
    *("kv_cache_scheme", "kv_cache_quant_algo"),
}


@dataclass(frozen=True)
class BlockFp8(Scheme):
    """Scheme with one scale for each block. block: rows and columns; None for one of a tensor."""

    block: tuple[int, int] | None
    endings = ("weight_scale_inv", "weight_scale", "input_scale", "activation_scale")

    @classmethod
    def read(cls, options: JsonConfig) -> "BlockFp8":
        """Read the options; raises ModelError for one that is not supported."""
        options.require("fmt", "e4m3")
        options.require("scale_fmt", "float", "ue8m0")
        block = options.get("weight_block_size")
        options.refuse_unknown(
            {"quant_method", "fmt", "scale_fmt", "weight_block_size", *_IGNORED_BY_FP8}
        )
        return cls(read_block(options, "weight_block_size") if block is not None else None)

    def weight(self, parts: Parts) -> tuple[str, LayerMatrix]:
        """Return type and weight of a layer; raises ModelError."""
        codes = parts.integers("weight", FP8)
        # In spite of its name, the scale is not inverted: both names mean a factor.
        inverse = "weight_scale_inv" in parts
        scales = parts.floats("weight_scale_inv" if inverse else "weight_scale")

        def decode() -> Floats:
            rows, columns = codes.shape
            return FP8_VALUES[codes] * spread(scales, (rows, columns), self.block)

        return FP8, parts.matrix(codes.shape, decode)


class ModelOpt(Scheme):
    """Scheme of NVIDIA's Model Optimizer: NVFP4, and FP8 with one scale."""

    endings = ("weight_scale", "weight_scale_2", "input_scale", "k_scale", "v_scale")

    @classmethod
    def read(cls, options: JsonConfig) -> "ModelOpt":
        """Check the options; raises ModelError for one that is not supported."""
        options.require("quant_algo", *_ALGORITHMS)
        options.require("group_size", NVFP4_COLUMNS)
        options.refuse_unknown({*_IGNORED_BY_MODEL_OPT, "quant_algo", "group_size"})
        return cls()

    def weight(self, parts: Parts) -> tuple[str, LayerMatrix] | None:
        """Return type and weight of a layer; None if it is not quantised; raises ModelError."""
        if "weight_scale_2" in parts:
            factor = parts.floats("weight_scale_2")
            return NVFP4, nvfp4_matrix(parts, "weight", lambda scales: scales * factor)
        if "weight_scale" not in parts:
            return None
        codes, scale = parts.integers("weight", FP8), parts.floats("weight_scale")
        return FP8, parts.matrix(
            codes.shape, lambda: FP8_VALUES[codes] * spread(scale, (codes.shape[0], codes.shape[1]))
        )


def nvfp4_matrix(parts: Parts, part: str, scale: Callable[[Floats], Floats]) -> LayerMatrix:
    """Return the weight (N, D) of a layer whose codes (N, D / 2) are a part of this name.

    The even columns are the lower bits. scale: applies the scale of the tensor to those of columns.

    Raises ModelError for a layer that lacks a part.
    """
    codes, scales = parts.integers(part, "U8"), parts.integers("weight_scale", FP8)
    shape = (codes.shape[0], 2 * codes.shape[-1])

    def decode() -> Floats:
        nibbles = codes[..., None] >> np.array([0, 4], np.uint8) & np.uint8(15)
        numbers: Floats = _NVFP4_VALUES[nibbles].reshape(shape)
        numbers *= spread(scale(FP8_VALUES[scales]), shape)
        return numbers

    return parts.matrix((*shape, *codes.shape[2:]), decode)


def read_block(options: JsonConfig, key: str) -> tuple[int, int]:
    """Read the rows and columns of a block, written as [128, 128] or "128x128".

    Raises ModelError for another value.
    """
    value = options[key]
    sizes = value.split("x") if isinstance(value, str) else value
    if isinstance(sizes, list) and len(sizes) == 2 and all(str(size).isdecimal() for size in sizes):
        rows, columns = map(int, sizes)
        if rows and columns:
            return rows, columns
    raise options.unsupported(key, value, "two whole numbers, such as [128, 128]")


def _fp8_values() -> Floats:
    # The value of each code: a sign, four bits of exponent, three of fraction; no infinity.
    codes = np.arange(256)
    exponent, fraction = codes >> 3 & 15, codes & 7
    sizes = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10))
    sizes[codes & 127 == 127] = np.nan
    values: Floats = np.where(codes < 128, sizes, -sizes).astype(np.float32)
    return values


FP8_VALUES = _fp8_values()
"""The value of each code of FP8."""
