"""Weights as AutoAWQ stores them (gemm): integers in words along the outputs, interleaved."""

import numpy as np

from embedwell_models.checkpoint.quantized.gptq import packed_bits
from embedwell_models.checkpoint.quantized.layer import (
    INTEGERS,
    Bytes,
    LayerMatrix,
    Parts,
    spread,
    unpack,
)
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.tables.table import Array
from embedwell_models.vectors import Floats

_BITS = 4
_PLACES = [0, 4, 1, 5, 2, 6, 3, 7]  # place of each of eight outputs inside a word
_IGNORED = {  # the tensors say the rest
    *("quant_method", "group_size", "modules_to_not_convert", "backend", "do_fuse"),
    *("fuse_max_seq_len", "modules_to_fuse", "exllama_config"),
}


class Awq:
    """Scheme of AutoAWQ for matrix products."""

    endings = ("qweight", "qzeros", "scales")

    @classmethod
    def read(cls, options: JsonConfig) -> "Awq":
        """Check the options; raises ModelError for one that is not supported."""
        options.require("bits", _BITS)
        options.require("version", "gemm", "GEMM")
        options.require("zero_point", True)
        options.refuse_unknown({*_IGNORED, "bits", "version", "zero_point"})
        return cls()

    def weight(self, parts: Parts) -> tuple[str, LayerMatrix]:
        """Return type and weight of a layer; raises ModelError for one that lacks a part."""
        words, zeros = parts.integers("qweight", "I32"), parts.integers("qzeros", "I32")
        scales = parts.floats("scales")
        if packed_bits(parts, zeros.shape, scales.shape) != _BITS:
            raise ModelError(f"{parts.name}: qzeros are not of {_BITS} bits")
        shape = (scales.shape[1], len(words))

        def decode() -> Floats:
            numbers = np.ascontiguousarray(_in_order(words).T).astype(np.float32)
            numbers -= spread(_in_order(zeros).T.astype(np.float32), shape)
            numbers *= spread(np.ascontiguousarray(scales.T), shape)
            return numbers

        return INTEGERS[_BITS], parts.matrix(shape, decode)


def _in_order(words: Array) -> Bytes:
    numbers = unpack(words, _BITS)
    return numbers.reshape(len(words), -1, 8)[..., _PLACES].reshape(numbers.shape)
