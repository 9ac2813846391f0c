"""Weights in FP8 (E4M3) with a scale for each block, as DeepSeek's and Qwen's files have them."""

from dataclasses import dataclass

import numpy as np

from embedwell_models.checkpoint.quantized.layer import LayerMatrix, Parts, spread
from embedwell_models.checkpoint.safetensors_files import FP8
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.vectors import Floats

_IGNORED = (  # which layers stay in other types, and how inputs are rounded
    *("activation_scheme", "modules_to_not_convert", "ignored_layers", "dequantize"),
    "modules_to_convert",
)


@dataclass(frozen=True)
class BlockFp8:
    """Scheme with one scale for each block. block: rows and columns; None for one of a tensor."""

    block: tuple[int, int] | None
    endings = ("weight_scale_inv", "weight_scale", "input_scale", "activation_scale")

    @classmethod
    def read(cls, options: JsonConfig) -> "BlockFp8":
        """Read the options; raises ModelError for one that is not supported."""
        options.require("fmt", "e4m3")
        options.require("scale_fmt", "float", "ue8m0")
        block = options.get("weight_block_size")
        options.refuse_unknown({"quant_method", "fmt", "scale_fmt", "weight_block_size", *_IGNORED})
        return cls(read_block(options, "weight_block_size") if block is not None else None)

    def weight(self, parts: Parts) -> tuple[str, LayerMatrix]:
        """Return type and weight of a layer; raises ModelError."""
        codes = parts.integers("weight", FP8)
        # In spite of its name, the scale is not inverted: both names mean a factor.
        inverse = "weight_scale_inv" in parts
        scales = parts.floats("weight_scale_inv" if inverse else "weight_scale")

        def decode() -> Floats:
            rows, columns = codes.shape
            return VALUES[codes] * spread(scales, (rows, columns), self.block)

        return FP8, parts.matrix(codes.shape, decode)


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


def _values() -> Floats:
    # The value of each code: a sign, four bits of exponent, three of fraction; no infinity.
    codes = np.arange(256)
    exponent, fraction = codes >> 3 & 15, codes & 7
    sizes = np.where(exponent == 0, fraction * 2.0**-9, (8 + fraction) * 2.0 ** (exponent - 10))
    sizes[codes & 127 == 127] = np.nan
    values: Floats = np.where(codes < 128, sizes, -sizes).astype(np.float32)
    return values


VALUES = _values()
"""The value of each code of FP8."""
