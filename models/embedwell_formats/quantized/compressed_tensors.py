"""Weights as the library compressed-tensors stores them: int8, FP8, NVFP4 and packed integers."""

from dataclasses import dataclass

import numpy as np

from embedwell_formats.quantized.schemes import (
    INTEGERS,
    Parts,
    Scheme,
    spread,
    unpack,
)
from embedwell_formats.quantized.small_floats import (
    FP8_VALUES,
    NVFP4,
    NVFP4_COLUMNS,
    nvfp4_matrix,
    read_block,
)
from embedwell_models.checkpoint.formats import FP8
from embedwell_models.checkpoint.tables import LayerMatrix
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

_NVFP4 = "nvfp4-pack-quantized"
_FORMATS = ("int-quantized", "float-quantized", "naive-quantized", "pack-quantized", _NVFP4)
_BITS = (4, 8)
_KNOWN = {
    *("config_groups", "format", "quant_method", "quantization_status", "version", "ignore"),
    *("global_compression_ratio", "kv_cache_scheme", "sparsity_config", "transform_config"),
}
_OF_GROUP = {"targets", "weights", "input_activations", "output_activations", "format"}
_OF_WEIGHTS = {
    *("num_bits", "type", "symmetric", "group_size", "strategy", "block_structure", "dynamic"),
    *("actorder", "observer", "observer_kwargs", "scale_dtype", "zp_dtype"),
}


@dataclass(frozen=True)
class CompressedTensors(Scheme):
    """Scheme of compressed-tensors. block: rows and columns of a block; None without blocks."""

    block: tuple[int, int] | None
    endings = (
        *("weight_packed", "weight_scale", "weight_zero_point", "weight_g_idx", "weight_shape"),
        *("input_scale", "input_zero_point", "output_scale", "output_zero_point"),
        *("weight_global_scale", "input_global_scale"),
    )

    @classmethod
    def read(cls, options: JsonConfig) -> "CompressedTensors":
        """Read the options; raises ModelError for one that is not supported."""
        options.refuse_unknown(_KNOWN)
        options.require("format", *_FORMATS, "mixed-precision")
        options.require("quantization_status", "compressed", "frozen")  # earlier versions said so
        for key in ("kv_cache_scheme", "transform_config"):
            if options.get(key):
                raise options.unsupported(key, options[key], "none")
        options.nested("sparsity_config").require("format", "dense")
        groups, blocks = options.nested("config_groups"), set[tuple[int, int]]()
        for name in options.get("config_groups", {}):
            group = groups.nested(name)
            group.refuse_unknown(_OF_GROUP)
            group.require("format", *_FORMATS)
            if group.get("weights") is not None:
                blocks |= _block(group.nested("weights"))
        if len(blocks) > 1:
            raise options.unsupported("config_groups", sorted(blocks), "blocks of one size")
        return cls(next(iter(blocks), None))

    def weight(self, parts: Parts) -> tuple[str, LayerMatrix] | None:
        """Return type and weight of a layer; None if only its inputs are quantised.

        Raises ModelError for a layer that lacks a part.
        """
        if "weight_global_scale" in parts:
            divisor = parts.floats("weight_global_scale")
            return NVFP4, nvfp4_matrix(parts, "weight_packed", lambda scales: scales / divisor)
        if "weight_packed" in parts:
            return self._packed(parts)
        if "weight_scale" not in parts:
            return None
        kind, codes = parts["weight"].dtype, parts.integers("weight", "I8", FP8)
        values = FP8_VALUES if kind == FP8 else _INT8

        def decode() -> Floats:
            zeros = _plain_zeros(parts) if "weight_zero_point" in parts else None
            return self._scaled(parts, values[codes.view(np.uint8)], zeros)

        return kind if kind == FP8 else INTEGERS[8], parts.matrix(codes.shape, decode)

    def _packed(self, parts: Parts) -> tuple[str, LayerMatrix]:
        words = parts.integers("weight_packed", "I32")
        shape = tuple(map(int, parts.integers("weight_shape", "I64", "I32").tolist()))
        bits = next((bits for bits in _BITS if -(-shape[-1] * bits // 32) == words.shape[-1]), None)
        if bits is None:
            raise ModelError(
                f"{parts.name}: weight_packed has the shape {words.shape}, which is neither 4 nor "
                f"8 bits of {shape}"
            )

        def decode() -> Floats:
            numbers = unpack(words, bits)[:, : shape[1]].astype(np.float32)
            numbers -= 2 ** (bits - 1)
            zeros = _packed_zeros(parts, bits, shape[0])
            return self._scaled(parts, numbers, zeros)

        return INTEGERS[bits], parts.matrix(shape, decode)

    def _scaled(self, parts: Parts, numbers: Floats, zeros: Floats | None) -> Floats:
        rows, columns = numbers.shape
        groups = None
        if "weight_g_idx" in parts:
            groups = parts.integers("weight_g_idx", "I32", "I64")
            if (groups == -1).all():  # the order was not used
                groups = None
        if zeros is not None:
            numbers -= spread(zeros, (rows, columns), self.block, groups)
        numbers *= spread(parts.floats("weight_scale"), (rows, columns), self.block, groups)
        return numbers


def _plain_zeros(parts: Parts) -> Floats:
    tensor = parts["weight_zero_point"]
    if tensor.is_float:
        return tensor.to_float32()
    codes = parts.integers("weight_zero_point", "I8", FP8, "I32", "I64")
    return FP8_VALUES[codes] if tensor.dtype == FP8 else codes.astype(np.float32)


def _packed_zeros(parts: Parts, bits: int, rows: int) -> Floats | None:
    # Packed along the rows; files of earlier versions hold them as they are.
    if "weight_zero_point" not in parts:
        return None
    if parts["weight_zero_point"].dtype != "I32":
        return _plain_zeros(parts)
    words = np.ascontiguousarray(parts.integers("weight_zero_point", "I32").T)
    return unpack(words, bits)[:, :rows].T.astype(np.float32) - np.float32(2 ** (bits - 1))


def _block(weights: JsonConfig) -> set[tuple[int, int]]:
    # The block size of a group of layers; empty without blocks.
    weights.refuse_unknown(_OF_WEIGHTS)
    kind = weights.require("type", "int", "float")
    weights.require("num_bits", 8, 4)
    if kind == "float" and weights.get("num_bits", 8) == 4:
        weights.require("strategy", "tensor_group")
        weights.require("group_size", NVFP4_COLUMNS)
        return set()
    strategy = weights.require("strategy", "tensor", "channel", "group", "block")
    return {read_block(weights, "block_structure")} if strategy == "block" else set()


_INT8 = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float32)
