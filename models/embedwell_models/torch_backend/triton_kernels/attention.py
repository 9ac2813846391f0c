"""Attention over packed texts of various lengths, with scores that depend on the positions.

B texts, T tokens, H heads, Dh head size, M the largest distance in a table, R relative positions.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from embedwell_models.torch_backend.attention import Visibility
from embedwell_models.torch_backend.position_hooks import RelativeScores


@triton.jit  # type: ignore[untyped-decorator]
def attention_kernel(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - kernels take single values
    query: tl.tensor,
    key: tl.tensor,
    value: tl.tensor,
    out: tl.tensor,
    ends: tl.tensor,
    key_counts: tl.tensor,
    slopes: tl.tensor,
    table: tl.tensor,
    index: tl.tensor,
    query_scores: tl.tensor,
    key_scores: tl.tensor,
    query_row: tl.tensor,
    query_head: tl.tensor,
    key_row: tl.tensor,
    key_head: tl.tensor,
    value_row: tl.tensor,
    value_head: tl.tensor,
    score_head: tl.tensor,
    scale: tl.tensor,
    softcap: tl.tensor,
    window: tl.tensor,
    farthest: tl.tensor,
    relative: tl.tensor,
    heads: tl.constexpr,
    shared: tl.constexpr,
    size: tl.constexpr,
    size_block: tl.constexpr,
    query_block: tl.constexpr,
    key_block: tl.constexpr,
    causal: tl.constexpr,
    has_window: tl.constexpr,
    has_counts: tl.constexpr,
    has_cap: tl.constexpr,
    has_slopes: tl.constexpr,
    has_table: tl.constexpr,
    has_query_scores: tl.constexpr,
    has_key_scores: tl.constexpr,
) -> None:
    """Attend some queries of a head of a text to its keys; a softmax that is updated by block.

    Milakov and Gimelshein 2018, arXiv 1805.02867. Blocks of keys begin at multiples of their size,
    so that a text's sums have the same order in every batch.
    """
    text = tl.program_id(0)
    head = tl.program_id(1)
    start = tl.load(ends + text)
    length = tl.load(ends + text + 1) - start
    first_query = tl.program_id(2) * query_block
    keys = length
    if has_counts:
        keys = tl.minimum(length, tl.load(key_counts + text))
    if first_query < length:
        queries = first_query + tl.arange(0, query_block)
        features = tl.arange(0, size_block)
        is_query = queries < length
        is_feature = features < size
        rows = (start + queries).to(tl.int64)
        q = tl.load(
            query + rows[:, None] * query_row + head * query_head + features[None, :],
            mask=is_query[:, None] & is_feature[None, :],
            other=0.0,
        )
        from_key = 0
        to_key = keys
        if has_window:
            from_key = tl.maximum(first_query - window, 0) // key_block * key_block
            to_key = tl.minimum(to_key, first_query + query_block + window)
        if causal:
            to_key = tl.minimum(to_key, first_query + query_block)
        if has_slopes:
            slope = tl.load(slopes + head).to(tl.float32)
        largest = tl.full([query_block], float("-inf"), dtype=tl.float32)
        total = tl.zeros([query_block], dtype=tl.float32)
        mixed = tl.zeros([query_block, size_block], dtype=tl.float32)
        for first_key in range(from_key, to_key, key_block):
            at = first_key + tl.arange(0, key_block)
            is_key = at < keys
            key_rows = (start + at).to(tl.int64)
            k = tl.load(
                key + key_rows[None, :] * key_row + head // shared * key_head + features[:, None],
                mask=is_key[None, :] & is_feature[:, None],
                other=0.0,
            )
            scores = tl.dot(q, k, input_precision="ieee") * scale
            if has_cap:  # tanh(z) = 2 sigmoid(2 z) - 1
                scores = softcap * (2.0 * tl.sigmoid(2.0 * scores / softcap) - 1.0)
            distance = at[None, :] - queries[:, None]
            pair = is_query[:, None] & is_key[None, :]
            if has_slopes:
                scores -= slope * tl.abs(distance).to(tl.float32)
            near = tl.minimum(tl.maximum(distance, -farthest), farthest) + farthest
            if has_table:
                scores += tl.load(
                    table + head * (2 * farthest + 1) + near, mask=pair, other=0.0
                ).to(tl.float32)
            if has_query_scores or has_key_scores:
                place = head.to(tl.int64) * score_head + tl.load(index + near)
                if has_query_scores:
                    scores += scale * tl.load(
                        query_scores + place + rows[:, None] * relative, mask=pair, other=0.0
                    ).to(tl.float32)
                if has_key_scores:
                    scores += scale * tl.load(
                        key_scores + place + key_rows[None, :] * relative, mask=pair, other=0.0
                    ).to(tl.float32)
            seen = is_key[None, :]
            if causal:
                seen = seen & (distance <= 0)
            if has_window:
                seen = seen & (tl.abs(distance) <= window)
            scores = tl.where(seen, scores * 1.4426950408889634, float("-inf"))
            new_largest = tl.maximum(largest, tl.max(scores, axis=1))
            # A query that sees no key of the first blocks has no maximum yet.
            base = tl.where(new_largest == float("-inf"), 0.0, new_largest)
            weights = tl.exp2(scores - base[:, None])
            shrink = tl.exp2(largest - base)
            total = total * shrink + tl.sum(weights, axis=1)
            v = tl.load(
                value
                + key_rows[:, None] * value_row
                + head // shared * value_head
                + features[None, :],
                mask=is_key[:, None] & is_feature[None, :],
                other=0.0,
            )
            mixed = tl.dot(weights.to(v.dtype), v, mixed * shrink[:, None], input_precision="ieee")
            largest = new_largest
        tl.store(
            out + (rows[:, None] * heads + head) * size + features[None, :],
            (mixed / total[:, None]).to(out.dtype.element_ty),
            mask=is_query[:, None] & is_feature[None, :],
        )


@dataclass(frozen=True)
class Blocks:
    """Queries and keys of a step of the kernel, and how it is compiled."""

    query_block: int
    key_block: int
    num_warps: int
    num_stages: int

    @classmethod
    def of(cls, size: int, longest: int, dtype: torch.dtype) -> "Blocks":
        """Choose them. The keys do not depend on the lengths, as they decide the order of sums."""
        queries = max(16, min(triton.next_power_of_2(longest), 64))
        if dtype == torch.float32:
            # With 4 warps, wide heads do not fit into the registers.
            return cls(min(queries, 32), 32 if size <= 128 else 16, 4 if size <= 64 else 8, 1)
        return cls(queries, 64 if size <= 128 else 32, 4 if size <= 128 else 8, 2)


def attend(  # noqa: PLR0913, PLR0917
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ends: Tensor,
    longest: int,
    scale: float,
    softcap: float = 0.0,
    visible: Visibility = Visibility(),  # noqa: B008 - frozen
    scores: RelativeScores = RelativeScores(),  # noqa: B008
) -> Tensor:
    """Return softmax(softcap(q k^T * scale) + relative scores) v within each text: (T, H, Dh).

    query: (T, H, Dh). key, value: (T, heads that divide H, Dh). ends: (B + 1,) int32, the first row
    of each text and the row after the last. longest: at least the length of each text. Rows of no
    text are not written.
    """
    assert all(part.stride(2) == 1 for part in (query, key, value))
    _, heads, size = query.shape
    out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    blocks, texts = Blocks.of(size, longest, query.dtype), len(ends) - 1
    by_distance = scores.table if scores.table is not None else scores.index
    content = scores.query_scores if scores.query_scores is not None else scores.key_scores
    if texts:
        attention_kernel[(texts, heads, triton.cdiv(longest, blocks.query_block))](
            *(query, key, value, out, ends),
            *(query if part is None else part for part in _pointers(visible, scores)),
            *(query.stride(0), query.stride(1), key.stride(0), key.stride(1)),
            *(value.stride(0), value.stride(1), 0 if content is None else content.stride(0)),
            *(scale, softcap, visible.window or 0),
            0 if by_distance is None else by_distance.shape[-1] // 2,
            0 if content is None else content.shape[2],
            heads=heads,
            shared=heads // key.shape[1],
            size=size,
            size_block=max(16, triton.next_power_of_2(size)),
            query_block=blocks.query_block,
            key_block=blocks.key_block,
            causal=visible.causal,
            has_window=visible.window is not None,
            has_counts=visible.key_counts is not None,
            has_cap=softcap != 0,
            has_slopes=scores.slopes is not None,
            has_table=scores.table is not None,
            has_query_scores=scores.query_scores is not None,
            has_key_scores=scores.key_scores is not None,
            num_warps=blocks.num_warps,
            num_stages=blocks.num_stages,
        )
    return out


def _pointers(visible: Visibility, scores: RelativeScores) -> tuple[Tensor | None, ...]:
    return (
        *(visible.key_counts, scores.slopes, scores.table, scores.index),
        *(scores.query_scores, scores.key_scores),
    )
