"""Weights in NVFP4: four bits (E2M1), with a scale in FP8 for each 16 columns and one for all."""

from collections.abc import Callable

import numpy as np

from embedwell_models.checkpoint.quantized import fp8
from embedwell_models.checkpoint.quantized.layer import LayerMatrix, Parts, spread
from embedwell_models.checkpoint.safetensors_files import FP8
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.vectors import Floats

NAME = "NVFP4"
COLUMNS = 16
_SIZES = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
_VALUES = np.array([*_SIZES, *(-size for size in _SIZES)], np.float32)
_ALGORITHMS = (NAME, f"W4A16_{NAME}", "FP8")
_IGNORED = {  # how inputs are rounded, and which layers stay in other types
    *("quant_method", "config_groups", "ignore", "exclude_modules", "producer"),
    *("weights", "input_activations"),
    # A pass over a text keeps no cache.
    *("kv_cache_scheme", "kv_cache_quant_algo"),
}


class ModelOpt:
    """Scheme of NVIDIA's Model Optimizer: NVFP4, and FP8 with one scale."""

    endings = ("weight_scale", "weight_scale_2", "input_scale", "k_scale", "v_scale")

    @classmethod
    def read(cls, options: JsonConfig) -> "ModelOpt":
        """Check the options; raises ModelError for one that is not supported."""
        options.require("quant_algo", *_ALGORITHMS)
        options.require("group_size", COLUMNS)
        options.refuse_unknown({*_IGNORED, "quant_algo", "group_size"})
        return cls()

    def weight(self, parts: Parts) -> tuple[str, LayerMatrix] | None:
        """Return type and weight of a layer; None if it is not quantised; raises ModelError."""
        if "weight_scale_2" in parts:
            factor = parts.floats("weight_scale_2")
            return NAME, matrix(parts, "weight", lambda scales: scales * factor)
        if "weight_scale" not in parts:
            return None
        codes, scale = parts.integers("weight", FP8), parts.floats("weight_scale")
        return FP8, parts.matrix(
            codes.shape, lambda: fp8.VALUES[codes] * spread(scale, (codes.shape[0], codes.shape[1]))
        )


def matrix(parts: Parts, part: str, scale: Callable[[Floats], Floats]) -> LayerMatrix:
    """Return the weight (N, D) of a layer whose codes (N, D / 2) are a part of this name.

    The even columns are the lower bits. scale: applies the scale of the tensor to those of columns.

    Raises ModelError for a layer that lacks a part.
    """
    codes, scales = parts.integers(part, "U8"), parts.integers("weight_scale", FP8)
    shape = (codes.shape[0], 2 * codes.shape[-1])

    def decode() -> Floats:
        nibbles = codes[..., None] >> np.array([0, 4], np.uint8) & np.uint8(15)
        numbers: Floats = _VALUES[nibbles].reshape(shape)
        numbers *= spread(scale(fp8.VALUES[scales]), shape)
        return numbers

    return parts.matrix((*shape, *codes.shape[2:]), decode)
