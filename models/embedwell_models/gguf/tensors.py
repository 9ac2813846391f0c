"""Tensors of a GGUF file under the names and with the values of the original checkpoint."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from embedwell_models.gguf import architectures
from embedwell_models.gguf.architectures import Architecture
from embedwell_models.gguf.file import GgufFile, TensorInfo
from embedwell_models.gguf.metadata import Metadata
from embedwell_models.tables.quantized import BlockMatrix, Stored, decoded

DENSE = ("dense_2.weight", "dense_3.weight")
"""Layers after the pooling, which the folder of a model has in files of their own."""

_ROTATED = {  # ending of a name -> key of its number of heads
    **dict.fromkeys(("attn_q.weight", "attn_q.bias"), "attention.head_count"),
    **dict.fromkeys(("attn_k.weight", "attn_k.bias"), "attention.head_count_kv"),
}


def arrays(path: Path) -> Iterator[tuple[str, str, Stored]]:
    """Map a file, and yield name, type and numbers of each tensor of the encoder.

    Raises ModelError for a file that cannot be read.
    """
    file = GgufFile.read(path)
    metadata = Metadata(file)
    architecture = architectures.find(metadata)
    for name, numbers in file.arrays():
        if name not in DENSE:
            original = _original(name, numbers, architecture, metadata)
            yield architecture.rename(name), file.tensors[name].kind, original


def infos(path: Path) -> Iterator[tuple[str, TensorInfo]]:
    """Yield name, shape and type of each tensor of the encoder; raises ModelError as `arrays`."""
    file = GgufFile.read(path)
    architecture = architectures.find(Metadata(file))
    for name, info in file.tensors.items():
        if name not in DENSE:
            yield architecture.rename(name), info


def _original(name: str, numbers: Stored, architecture: Architecture, metadata: Metadata) -> Stored:
    if architecture.norm_shift and name.endswith("norm.weight"):
        return decoded(numbers) - np.float32(architecture.norm_shift)
    key = _ROTATED.get(name.split(".", 2)[-1])
    if not (architecture.interleaved and key):
        return numbers
    heads = metadata.size("attention.head_count")
    return _in_halves(numbers, heads if key.endswith("count") else metadata.optional(key, heads))


def _in_halves(numbers: Stored, heads: int) -> Stored:
    # The converter alternates the rows of the two halves of each head.
    order = np.arange(len(numbers)).reshape(heads, -1, 2).swapaxes(1, 2).ravel()
    if isinstance(numbers, BlockMatrix):
        return BlockMatrix(numbers.blocks[order], numbers.kind)
    return np.ascontiguousarray(numbers[order])
