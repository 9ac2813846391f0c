"""Weights as integers in words: along the inputs (GPTQ), or interleaved along the outputs (AWQ)."""

from dataclasses import dataclass

import numpy as np

from embedwell_formats.quantized.schemes import (
    INTEGERS,
    Bytes,
    Parts,
    Scheme,
    spread,
    unpack,
)
from embedwell_models.checkpoint.tables import Array, LayerMatrix
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats

_ORDERS = {"gptq": 1, "gptq_v2": 0}  # what is added to the stored zero points
_IGNORED_BY_GPTQ = {  # how and which weights were found, and kernels: the tensors say the rest
    *("quant_method", "bits", "group_size", "desc_act", "sym", "static_groups", "lm_head"),
    *("damp_percent", "damp_auto_increment", "true_sequential", "mse", "hyb_act", "meta"),
    *("model_name_or_path", "model_file_base_name", "is_marlin_format", "dataset", "tokenizer"),
    *("batch_size", "block_name_to_quantize", "cache_block_outputs", "exllama_config"),
    *("max_input_length", "modules_in_block_to_quantize", "model_seqlen", "pad_token_id"),
    *(
        "use_cuda_fp16",
        "use_exllama",
        "disable_exllama",
        "backend",
        "module_name_preceding_first_block",
    ),
    *("modules_to_not_convert", "act_group_aware", "dynamic"),
}
_AWQ_BITS = 4
_PLACES = [0, 4, 1, 5, 2, 6, 3, 7]  # place of each of eight outputs inside a word
_IGNORED_BY_AWQ = {  # the tensors say the rest
    *("quant_method", "group_size", "modules_to_not_convert", "backend", "do_fuse"),
    *("fuse_max_seq_len", "modules_to_fuse", "exllama_config"),
}


@dataclass(frozen=True)
class Gptq(Scheme):
    """Scheme of GPTQ. added: what is added to the stored zero points."""

    added: int
    endings = ("qweight", "qzeros", "scales", "g_idx")

    @classmethod
    def read(cls, options: JsonConfig) -> "Gptq":
        """Read the options; raises ModelError for one that is not supported."""
        options.require("bits", 4, *INTEGERS)
        options.require("pack_dtype", "int32")
        options.require("is_marlin_format", False)
        key = "checkpoint_format" if "checkpoint_format" in options else "format"
        added = options.choice(key, _ORDERS, "gptq")
        options.refuse_unknown({*_IGNORED_BY_GPTQ, "pack_dtype", "checkpoint_format", "format"})
        return cls(added)

    def weight(self, parts: Parts) -> tuple[str, LayerMatrix]:
        """Return type and weight of a layer; raises ModelError for one that lacks a part."""
        words, zeros = parts.integers("qweight", "I32"), parts.integers("qzeros", "I32")
        scales = parts.floats("scales")
        bits = _packed_bits(parts, zeros.shape, scales.shape)
        shape = (scales.shape[1], len(words) * 32 // bits)
        groups = parts.integers("g_idx", "I32", "I64") if "g_idx" in parts else None

        def decode() -> Floats:
            numbers = unpack(np.ascontiguousarray(words.T), bits).astype(np.float32)
            # In the first order, 0 is stored as the largest number.
            points = unpack(zeros, bits) + np.uint8(self.added) & np.uint8(2**bits - 1)
            numbers -= spread(points.T.astype(np.float32), shape, groups=groups)
            numbers *= spread(np.ascontiguousarray(scales.T), shape, groups=groups)
            return numbers

        return INTEGERS[bits], parts.matrix(shape, decode)


class Awq(Scheme):
    """Scheme of AutoAWQ for matrix products."""

    endings = ("qweight", "qzeros", "scales")

    @classmethod
    def read(cls, options: JsonConfig) -> "Awq":
        """Check the options; raises ModelError for one that is not supported."""
        options.require("bits", _AWQ_BITS)
        options.require("version", "gemm", "GEMM")
        options.require("zero_point", True)
        options.refuse_unknown({*_IGNORED_BY_AWQ, "bits", "version", "zero_point"})
        return cls()

    def weight(self, parts: Parts) -> tuple[str, LayerMatrix]:
        """Return type and weight of a layer; raises ModelError for one that lacks a part."""
        words, zeros = parts.integers("qweight", "I32"), parts.integers("qzeros", "I32")
        scales = parts.floats("scales")
        if _packed_bits(parts, zeros.shape, scales.shape) != _AWQ_BITS:
            raise ModelError(f"{parts.name}: qzeros are not of {_AWQ_BITS} bits")
        shape = (scales.shape[1], len(words))

        def decode() -> Floats:
            numbers = np.ascontiguousarray(_in_order(words).T).astype(np.float32)
            numbers -= spread(_in_order(zeros).T.astype(np.float32), shape)
            numbers *= spread(np.ascontiguousarray(scales.T), shape)
            return numbers

        return INTEGERS[_AWQ_BITS], parts.matrix(shape, decode)


def _in_order(words: Array) -> Bytes:
    numbers = unpack(words, _AWQ_BITS)
    return numbers.reshape(len(words), -1, 8)[..., _PLACES].reshape(numbers.shape)


def _packed_bits(parts: Parts, zeros: tuple[int, ...], scales: tuple[int, ...]) -> int:
    """Return the bits of a number, by the shapes of packed zero points and of scales.

    Raises ModelError for shapes that do not fit.
    """
    bits = 32 * zeros[-1] // scales[-1] if len(zeros) == len(scales) == 2 and scales[-1] else 0
    if bits not in INTEGERS or zeros[0] != scales[0]:
        raise ModelError(f"{parts.name}: qzeros and scales have the shapes {zeros} and {scales}")
    return bits
