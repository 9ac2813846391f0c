"""A short encoder of BERT's shape with fused kernels, to compare the library with.

A layer launches seven kernels. Texts are packed without padding. Attention is torch's
FlashAttention; GELU, in its tanh form, is part of the matrix product; sum and norm are one Triton
kernel; pooling and normalisation are another. A batch is copied to the GPU at once, and runs as a
CUDA graph of its shape.

On a CPU (TRITON_INTERPRET=1) attention is a loop, which is correct but slow.
"""

import json
import threading
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from safetensors.torch import load_file
from torch import Tensor

from deploy.gpu.random_models import read_config
from deploy.gpu.token_rows import Rows
from embedwell_models.vectors import Floats

_SMALL_ROWS = (16, 32, 64, 128, 256, 384, 512, 768)
_ROWS = sorted(
    {
        *_SMALL_ROWS,
        *(1 << power for power in range(10, 17)),
        *(3 << power for power in range(9, 15)),
    }
)
"""Numbers of tokens of the recorded shapes."""

_LONGEST = (32, 64, 128, 256, 512)
"""Limits of the longest text of the recorded shapes."""

Pair = tuple[Tensor, Tensor]
"""A weight and a bias."""


# Triton's compiler evaluates annotations, and refuses names that are neither its own nor constants.
@triton.jit  # type: ignore[untyped-decorator]
def _add_norm(  # noqa: PLR0913, PLR0917 - kernels take single values
    x: tl.tensor,
    y: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    out: tl.tensor,
    eps: tl.tensor,
    width: tl.constexpr,
    block: tl.constexpr,
) -> None:
    """LayerNorm of x + y, in float32; a program for each row."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    inside = columns < width
    total = tl.load(x + row * width + columns, mask=inside, other=0.0).to(tl.float32)
    total += tl.load(y + row * width + columns, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, total - tl.sum(total, axis=0) / width, 0.0)
    deviation = tl.sqrt(tl.sum(centred * centred, axis=0) / width + eps)
    scale = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    normed = centred / deviation * scale + shift
    tl.store(out + row * width + columns, normed.to(out.dtype.element_ty), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _pool(  # noqa: PLR0913, PLR0917 - kernels take single values
    hidden: tl.tensor,
    ends: tl.tensor,
    out: tl.tensor,
    width: tl.constexpr,
    block: tl.constexpr,
    tile: tl.constexpr,
    cls: tl.constexpr,
) -> None:
    """The mean or the first state of each text, as a unit vector; a program for each text."""
    text = tl.program_id(0)
    columns = tl.arange(0, block)
    inside = columns < width
    start = tl.load(ends + text)
    stop = tl.load(ends + text + 1)
    if cls:
        stop = tl.minimum(stop, start + 1)
    total = tl.zeros([block], dtype=tl.float32)
    first = start
    while first < stop:  # Triton's interpreter takes no range of loaded numbers
        rows = first + tl.arange(0, tile)
        address = hidden + rows[:, None].to(tl.int64) * width + columns[None, :]
        mask = (rows < stop)[:, None] & inside[None, :]
        total += tl.sum(tl.load(address, mask=mask, other=0.0).to(tl.float32), axis=0)
        first += tile
    length = tl.sqrt(tl.sum(total * total, axis=0))  # the sum has the direction of the mean
    tl.store(out + text * width + columns, total / tl.maximum(length, 1e-12), mask=inside)


def _attention(query: Tensor, key: Tensor, value: Tensor, ends: Tensor, longest: int) -> Tensor:
    output: Tensor
    if query.is_cuda:
        output, *_ = torch.ops.aten._flash_attention_forward(
            query, key, value, ends, ends, longest, longest, 0.0, False, False
        )
        return output
    output = torch.empty_like(query)
    for start, stop in pairwise(ends.tolist()):
        if start < stop:
            q, k, v = (each[start:stop].transpose(0, 1)[None] for each in (query, key, value))
            output[start:stop] = F.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1)
    return output


@dataclass(frozen=True)
class _Layer:
    qkv: Pair
    output: Pair
    attention_norm: Pair
    up: Pair
    down: Pair
    ffn_norm: Pair


@dataclass(frozen=True)
class _Shape:
    """The shape of a batch, filled up to a recorded one. longest: limit of a text's tokens."""

    rows: int
    texts: int
    longest: int

    @classmethod
    def of(cls, lengths: np.ndarray[Any, np.dtype[np.int32]]) -> "_Shape":
        tokens, longest = int(lengths.sum()), int(lengths.max())
        rows = _ROWS[bisect_left(_ROWS, tokens)] if tokens <= _ROWS[-1] else tokens
        texts = 1 << max(2, (len(lengths) - 1).bit_length())
        return cls(rows, texts, _LONGEST[min(bisect_left(_LONGEST, longest), len(_LONGEST) - 1)])

    def pack(self, rows: Rows, *, pinned: bool) -> Tensor:
        """Return token ids, positions and the texts' ends as one tensor."""
        lengths = np.fromiter(map(len, rows), dtype=np.int32, count=len(rows))
        ends = lengths.cumsum(dtype=np.int32)
        tokens = ends[-1]
        packed = torch.zeros(2 * self.rows + self.texts + 1, dtype=torch.int32, pin_memory=pinned)
        ids, positions, all_ends = (part.numpy() for part in self.split(packed))
        ids[:tokens] = np.concatenate(rows)
        positions[:tokens] = np.arange(tokens, dtype=np.int32) - (ends - lengths).repeat(lengths)
        all_ends[1:] = tokens  # of the texts that are missing
        all_ends[1 : 1 + len(ends)] = ends
        return packed

    def split(self, packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return views of token ids, positions and ends."""
        ids, positions, ends = torch.split(packed, [self.rows, self.rows, self.texts + 1])
        return ids, positions, ends


_Recorded = tuple[Tensor, Callable[[], None], Tensor]
"""The input of a CUDA graph, its replay, and its output."""


class FusedBert:
    """Computes unit vectors of rows of token ids."""

    def __init__(self, folder: Path, device: torch.device, dtype: torch.dtype) -> None:
        config = read_config(folder)
        pooling = json.loads((folder / "1_Pooling" / "config.json").read_text(encoding="utf-8"))
        self._cls = bool(pooling.get("pooling_mode_cls_token"))
        self._width, self._heads = config["hidden_size"], config["num_attention_heads"]
        self._eps = config.get("layer_norm_eps", 1e-12)
        self._device = device
        self._tensors = {
            name.removeprefix("bert."): tensor.to(device, dtype)
            for name, tensor in load_file(folder / "model.safetensors").items()
            if tensor.is_floating_point()
        }
        indices = range(config["num_hidden_layers"])
        self._layers = [self._layer(f"encoder.layer.{index}") for index in indices]
        self._lock = threading.Lock()
        self._recorded: dict[_Shape, _Recorded] = {}
        self._memory_pool: Any = None

    def _pair(self, name: str) -> Pair:
        return self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"]

    def _layer(self, name: str) -> _Layer:
        parts = [self._pair(f"{name}.attention.self.{each}") for each in ("query", "key", "value")]
        weights, biases = zip(*parts, strict=True)
        return _Layer(
            qkv=(torch.cat(weights), torch.cat(biases)),
            output=self._pair(f"{name}.attention.output.dense"),
            attention_norm=self._pair(f"{name}.attention.output.LayerNorm"),
            up=self._pair(f"{name}.intermediate.dense"),
            down=self._pair(f"{name}.output.dense"),
            ffn_norm=self._pair(f"{name}.output.LayerNorm"),
        )

    def warm(self) -> None:
        """Compile the Triton kernels; graphs are recorded on first use."""
        self.encode([np.array([101, 102], dtype=np.int32)] * 4)

    @torch.inference_mode()
    def encode(self, rows: Rows) -> Floats:
        """Embed texts: -> (B, width)."""
        cuda = self._device.type == "cuda"
        shape = _Shape.of(np.fromiter(map(len, rows), dtype=np.int32, count=len(rows)))
        packed = shape.pack(rows, pinned=cuda)
        with self._lock:
            vectors = self._run(packed, shape)[: len(rows)].to("cpu", non_blocking=True)
            if cuda:
                event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                event.record()
        if cuda:
            event.synchronize()
        numbers: Floats = vectors.numpy()
        return numbers

    def _run(self, packed: Tensor, shape: _Shape) -> Tensor:
        if self._device.type != "cuda":
            return self._forward(packed, shape)
        if shape not in self._recorded:
            self._recorded[shape] = self._record(packed, shape)
        inputs, replay, output = self._recorded[shape]
        inputs.copy_(packed, non_blocking=True)
        replay()
        return output

    def _record(self, packed: Tensor, shape: _Shape) -> _Recorded:
        inputs = packed.to(self._device)
        self._forward(inputs, shape)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory_pool, capture_error_mode="thread_local"):
            output = self._forward(inputs, shape)
        self._memory_pool = self._memory_pool or graph.pool()
        return inputs, graph.replay, output

    def _forward(self, packed: Tensor, shape: _Shape) -> Tensor:
        ids, positions, ends = shape.split(packed)
        hidden = self._embed(ids, positions)
        for layer in self._layers:
            qkv = F.linear(hidden, *layer.qkv).view(len(hidden), 3, self._heads, -1)
            query, key, value = qkv.unbind(1)
            mixed = _attention(query, key, value, ends, shape.longest).flatten(1)
            hidden = self._add_norm(F.linear(mixed, *layer.output), hidden, layer.attention_norm)
            weight, bias = layer.up
            up = torch.ops.aten._addmm_activation(bias, hidden, weight.T, use_gelu=True)
            hidden = self._add_norm(F.linear(up, *layer.down), hidden, layer.ffn_norm)
        return self._pooled(hidden, ends)

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        words, places, types = (
            self._tensors[f"embeddings.{name}_embeddings.weight"]
            for name in ("word", "position", "token_type")
        )
        others = F.embedding(positions, places) + types[0]
        return self._add_norm(F.embedding(ids, words), others, self._pair("embeddings.LayerNorm"))

    def _add_norm(self, x: Tensor, y: Tensor, norm: Pair) -> Tensor:
        out = torch.empty_like(x)
        block = triton.next_power_of_2(self._width)
        warps = 4 if block < 2048 else 8
        _add_norm[(len(x),)](x, y, *norm, out, self._eps, self._width, block, num_warps=warps)
        return out

    def _pooled(self, hidden: Tensor, ends: Tensor) -> Tensor:
        out = torch.empty(len(ends) - 1, self._width, device=hidden.device)
        block = triton.next_power_of_2(self._width)
        _pool[(len(out),)](hidden, ends, out, self._width, block, 8, self._cls, num_warps=4)
        return out
