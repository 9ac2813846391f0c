"""Sum of the rows of tokens, segments and positions, and its norm, in one pass.

T tokens, E embedding size.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from embedwell_models.torch_backend.embedding_tables import EmbeddingTables
from embedwell_models.torch_backend.triton_kernels.norm import (
    norm_kind,
    norm_values,
    normed_row,
)

_TILE = 128  # ids of a text that are read at once, to count those without a position


@triton.jit  # type: ignore[untyped-decorator]
def embedding_kernel(  # noqa: PLR0913, PLR0917 - kernels take single values
    ids: tl.tensor,
    places: tl.tensor,
    tokens: tl.tensor,
    segments: tl.tensor,
    positions: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    scale: tl.tensor,
    eps: tl.tensor,
    out: tl.tensor,
    width: tl.constexpr,
    block: tl.constexpr,
    tile: tl.constexpr,
    vocab_size: tl.constexpr,
    padding: tl.constexpr,
    has_segments: tl.constexpr,
    has_positions: tl.constexpr,
    norm: tl.constexpr,
) -> None:
    """Embed the token of a row; for vocab_size and padding see EmbeddingTables.

    places: position of each row in its text. norm: "layer", "rms" or "none".
    """
    row = tl.program_id(0)
    columns = tl.arange(0, block)
    inside = columns < width
    id = tl.load(ids + row)
    segment = id * 0
    if vocab_size > 0:
        segment = id // vocab_size
        id = id % vocab_size
    token = tokens + id.to(tl.int64) * width + columns
    x = tl.load(token, mask=inside, other=0.0).to(tl.float32) * scale
    if has_segments:
        x += tl.load(segments + segment * width + columns, mask=inside, other=0.0)
    if has_positions:
        place = tl.load(places + row)
        if padding >= 0:
            before = 0
            for at in range(row - place, row, tile):
                others = at + tl.arange(0, tile)
                other = tl.load(ids + others, mask=others < row, other=padding)
                if vocab_size > 0:
                    other = other % vocab_size
                counts = (others < row) & (other != padding)
                before += tl.sum(counts.to(tl.int32), axis=0)
            place = tl.where(id == padding, 0, before + 1)
        position = positions + place.to(tl.int64) * width + columns
        x += tl.load(position, mask=inside, other=0.0)
    if norm != "none":
        x = normed_row(x, weight, bias, eps, columns, width, norm == "layer")
    place_out = out + row.to(tl.int64) * width + columns
    tl.store(place_out, x.to(out.dtype.element_ty), mask=inside)


def embed_rows(tables: EmbeddingTables, ids: Tensor, places: Tensor, dtype: torch.dtype) -> Tensor:
    """Embed ids (T,) at positions (T,), computed in float32 and rounded once: (T, E)."""
    width, kind = tables.tokens.shape[1], norm_kind(tables.norm)
    out = torch.empty(len(ids), width, dtype=dtype, device=ids.device)
    positions, segments = tables.positions, tables.segments
    block = triton.next_power_of_2(width)
    if len(ids):
        weight, bias, eps = norm_values(tables.norm, unread=segments)
        embedding_kernel[(len(ids),)](
            *(ids, places, tables.tokens, segments),
            *(segments if positions is None else positions, weight, bias, tables.scale, eps, out),
            width=width,
            block=block,
            tile=_TILE,
            vocab_size=tables.vocab_size,
            padding=tables.padding,
            has_segments=segments.shape[1] == width,
            has_positions=positions is not None,
            norm=kind,
            num_warps=4 if block <= 2048 else 8,
        )
    return out
