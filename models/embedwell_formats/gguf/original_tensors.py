"""Tensors of GGUF files by the names and with the values of the original checkpoint.

llama.cpp's converter shifts, joins and reorders some of them; this module undoes that.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from embedwell_formats.gguf.architectures import (
    ANSWERS,
    DENSE,
    Architecture,
    find,
    has_answers,
    number_of_layers,
)
from embedwell_formats.gguf.blocks import BlockMatrix
from embedwell_formats.gguf.file import GgufFile, Metadata
from embedwell_models.checkpoint.formats import StoredTensor, TensorHeader
from embedwell_models.checkpoint.tables import Stored, decoded
from embedwell_models.config import other_files

_Order = npt.NDArray[np.int64]
_SCORE = "score.weight"
_UP, _GATE = "ffn_up.weight", "ffn_gate.weight"
_ROTATED = {  # ending of a name -> key of its number of heads
    **dict.fromkeys(("attn_q.weight", "attn_q.bias"), "attention.head_count"),
    **dict.fromkeys(("attn_k.weight", "attn_k.bias"), "attention.head_count_kv"),
}
_BY_VALUE_HEAD = ("attn_gate.weight", "ssm_alpha.weight", "ssm_beta.weight", "ssm_a", "ssm_dt.bias")
_BY_HEADS = ("attn_qkv.weight", "ssm_conv1d.weight")


@dataclass(frozen=True)
class GgufWeights:
    """Weights of a file in GGUF, with the further parts that a folder has next to it."""

    path: Path

    @property
    def files(self) -> list[Path]:
        """The file, and the further parts of its model."""
        return [self.path, *sorted(self.path.parent.glob(f"*-of-*{other_files.GGUF}"))]

    def headers(self) -> Iterator[tuple[str, TensorHeader]]:
        """Yield name, shape and type of each tensor; raises ModelError as `tensors` does."""
        file = GgufFile.read(self.path)
        metadata = Metadata(file)
        architecture = find(metadata)
        for name in _of_encoder(metadata, architecture):
            (rows, *others), kind = file.tensors[name].shape, file.tensors[name].kind
            if name == ANSWERS and has_answers(metadata):
                yield _SCORE, TensorHeader((1, *others), "F32")
                continue
            if gate := _gate_of(name, metadata, architecture):
                rows += file.tensors[gate].shape[0]
            yield architecture.rename(name), TensorHeader((rows, *others), kind)

    def tensors(self) -> Iterator[tuple[str, StoredTensor]]:
        """Map the file, and yield the name of each tensor of the encoder with its numbers.

        Raises ModelError for a file that cannot be read.
        """
        file = GgufFile.read(self.path)
        metadata = Metadata(file)
        architecture = find(metadata)
        stored = dict(file.arrays())
        for name in _of_encoder(metadata, architecture):
            numbers, kind = stored[name], file.tensors[name].kind
            if name == ANSWERS and has_answers(metadata):
                yes, no = decoded(numbers)
                yield _SCORE, StoredTensor("F32", yes[None] - no)  # its sigmoid is that of yes
                continue
            original = _original(name, numbers, architecture, metadata)
            if gate := _gate_of(name, metadata, architecture):
                parts = (numbers, stored[gate])
                original = _joined(*(parts[::-1] if architecture.gated_first else parts))
            is_decoded = isinstance(original, np.ndarray) and original.dtype == np.float32
            yield architecture.rename(name), StoredTensor("F32" if is_decoded else kind, original)


def _of_encoder(metadata: Metadata, architecture: Architecture) -> list[str]:
    # A gate comes with the matrix to which the original joins it.
    joined = {_gate_of(name, metadata, architecture) for name in metadata.tensors}
    return [
        name
        for name in metadata.tensors
        if name not in DENSE and name not in joined and not _predicts(name, metadata)
    ]


def _predicts(name: str, metadata: Metadata) -> bool:
    # Of the layers that predict further tokens, which follow the others.
    layer = re.match(r"blk\.(\d+)\.", name)
    further = range(number_of_layers(metadata), metadata.size("block_count"))
    return layer is not None and int(layer[1]) in further


def _gate_of(name: str, metadata: Metadata, architecture: Architecture) -> str | None:
    gate = f"{name.removesuffix(_UP)}{_GATE}"
    is_split = name.endswith(_UP) and gate in metadata.tensors
    return gate if architecture.gated_first is not None and is_split else None


def _joined(first: Stored, second: Stored) -> Stored:
    match first, second:
        case BlockMatrix(), BlockMatrix() if first.kind == second.kind:
            return BlockMatrix(np.concatenate([first.blocks, second.blocks]), first.kind)
        case np.ndarray(), np.ndarray() if first.dtype == second.dtype:
            return np.concatenate([first, second])
        case _:
            return np.concatenate([decoded(first), decoded(second)])


def _original(name: str, numbers: Stored, architecture: Architecture, metadata: Metadata) -> Stored:
    ending = name.split(".", 2)[-1]
    if architecture.delta_net and (
        ending.startswith("ssm_") or ending in _BY_VALUE_HEAD + _BY_HEADS
    ):
        return _of_delta_net(ending, numbers, metadata)
    if architecture.norm_shift and name.endswith("norm.weight"):
        return decoded(numbers) - np.float32(architecture.norm_shift)
    key = _ROTATED.get(ending)
    if not (architecture.interleaved and key):
        return numbers
    heads = metadata.size("attention.head_count")
    return _in_halves(numbers, heads if key.endswith("count") else metadata.optional(key, heads))


def _in_halves(numbers: Stored, heads: int) -> Stored:
    # The converter alternates the rows of the two halves of each head.
    return _rows(numbers, np.arange(len(numbers)).reshape(heads, -1, 2).swapaxes(1, 2).ravel())


class _Heads(NamedTuple):
    # keys, values: numbers of heads of a Gated DeltaNet. key_size, size: features of each.
    keys: int
    values: int
    key_size: int
    size: int

    def order(self, size: int) -> _Order:
        # The original has a key's heads of values together, the file the first of each key, and so
        # on. size: rows of a head.
        rows = np.arange(self.values * size).reshape(-1, self.keys, size)
        return rows.swapaxes(0, 1).ravel()


def _of_delta_net(ending: str, numbers: Stored, metadata: Metadata) -> Stored:
    values = metadata.size("ssm.time_step_rank")
    heads = _Heads(
        keys=metadata.size("ssm.group_count"),
        values=values,
        key_size=metadata.size("ssm.state_size"),
        size=metadata.size("ssm.inner_size") // values,
    )
    if ending == "ssm_a":
        with np.errstate(invalid="ignore", divide="ignore"):  # damaged numbers are refused later
            numbers = np.log(-decoded(numbers))
    if values % heads.keys or not heads.size:  # the wrong sizes are refused later
        return numbers
    if ending in _BY_VALUE_HEAD:
        return _rows(numbers, heads.order(max(1, len(numbers) // values)))
    if ending in _BY_HEADS:
        before = 2 * heads.keys * heads.key_size
        order = np.concatenate([np.arange(before), before + heads.order(heads.size)])
        return _rows(numbers, order)
    return _columns(numbers, heads) if ending == "ssm_out.weight" else numbers


def _rows(numbers: Stored, order: _Order) -> Stored:
    if len(numbers) != len(order):  # the wrong shape is refused later
        return numbers
    if isinstance(numbers, BlockMatrix):
        return BlockMatrix(numbers.blocks[order], numbers.kind)
    return np.ascontiguousarray(numbers[order])


def _columns(numbers: Stored, heads: _Heads) -> Stored:
    # Blocks that span heads are decoded.
    if heads.keys == heads.values or numbers.shape[1] != heads.values * heads.size:
        return numbers
    if isinstance(numbers, BlockMatrix) and heads.size % numbers.kind.numbers == 0:
        order = heads.order(heads.size // numbers.kind.numbers * numbers.kind.size)
        return BlockMatrix(np.ascontiguousarray(numbers.blocks[:, order]), numbers.kind)
    plain = numbers if isinstance(numbers, np.ndarray) else decoded(numbers)
    return np.ascontiguousarray(plain[:, heads.order(heads.size)])
