"""Tests of attention to packed texts in Triton's interpreter, compared with attention in blocks."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from embedwell_models.torch_backend.attention import Visibility
from embedwell_models.torch_backend.position_hooks import RelativeScores
from embedwell_models.torch_backend.triton_kernels.attention import Blocks, attend
from tests.models.torch_backend.triton_kernels.packed import (
    BEFORE,
    LENGTHS,
    ends_of,
    rows_of,
    split,
)

pytestmark = pytest.mark.interpreter
HEADS, FARTHEST, RELATIVE = 2, 6, 9
NOISE = torch.Generator().manual_seed(7)
SLOPES = torch.rand(HEADS, generator=NOISE)
TABLE = torch.randn(HEADS, 2 * FARTHEST + 1, generator=NOISE)
INDEX = torch.randint(0, RELATIVE, (2 * FARTHEST + 1,), generator=NOISE, dtype=torch.int32)


def heads_of(
    lengths: list[int], size: int, key_heads: int = HEADS, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values as parts of one product, as layers have them."""
    parts = [HEADS, key_heads, key_heads]
    qkv = rows_of(lengths, sum(parts), size).to(dtype)
    query, key, value = torch.split(qkv, parts, dim=1)
    return query, key, value


def twin(  # noqa: PLR0913, PLR0917
    query: Tensor,
    key: Tensor,
    value: Tensor,
    first_row: int,
    scale: float,
    softcap: float,
    visible: Visibility,
    scores: RelativeScores,
    keys: int,
) -> Tensor:
    """Attention within one text, by its definition: (length, H, Dh)."""
    length, shared = len(query), HEADS // key.shape[1]
    k, v = (part.float().repeat_interleave(shared, dim=1) for part in (key, value))
    product = torch.einsum("qhd,khd->hqk", query.float(), k) * scale
    if softcap:
        product = softcap * (product / softcap).tanh()
    places = torch.arange(length)
    distance = places - places[:, None]
    near = distance.clamp(-FARTHEST, FARTHEST) + FARTHEST
    if scores.slopes is not None:
        product = product - scores.slopes[:, None, None] * distance.abs()
    if scores.table is not None:
        product = product + scores.table[:, near]
    rows = places + first_row
    for part, row in ((scores.query_scores, rows[:, None]), (scores.key_scores, rows[None])):
        if part is not None and scores.index is not None:
            product = product + part[:, row, scores.index[near].long()] * scale
    hidden = (places >= keys)[None].expand(length, length)
    if visible.causal:
        hidden = hidden | (distance > 0)
    if visible.window is not None:
        hidden = hidden | (distance.abs() > visible.window)
    return torch.einsum(
        "hqk,khd->qhd", product.masked_fill(hidden, float("-inf")).softmax(dim=-1), v
    )


def check(  # noqa: PLR0913
    lengths: list[int],
    heads: tuple[Tensor, Tensor, Tensor],
    *,
    softcap: float = 0.0,
    visible: Visibility = Visibility(),  # noqa: B008
    scores: RelativeScores = RelativeScores(),  # noqa: B008
    tolerance: float = 1e-5,
) -> None:
    scale = 0.4
    found = attend(*heads, ends_of(lengths), max(lengths), scale, softcap, visible, scores)
    parts = zip(split(found, lengths), *(split(part, lengths) for part in heads), strict=True)
    counts = lengths if visible.key_counts is None else visible.key_counts.tolist()
    row = BEFORE
    for (mixed, *text), length, keys in zip(parts, lengths, counts, strict=True):
        expected = twin(*text, row, scale, softcap, visible, scores, keys)  # type: ignore[call-arg]
        torch.testing.assert_close(mixed.float(), expected, atol=tolerance, rtol=tolerance)
        row += length


def content(lengths: list[int]) -> RelativeScores:
    """Scores of queries and keys with relative positions; NaN for rows of no text."""
    both = rows_of(lengths, 2, HEADS, RELATIVE, seed=3).permute(1, 2, 0, 3).contiguous()
    return RelativeScores(query_scores=both[0], key_scores=both[1], index=INDEX)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_each_text_is_attended_to_by_itself(lengths: list[int]) -> None:
    check(lengths, heads_of(lengths, 20))


@pytest.mark.parametrize("lengths", LENGTHS[3:], ids=str)
@pytest.mark.parametrize(
    "scores",
    [RelativeScores(slopes=SLOPES), RelativeScores(table=TABLE), "content", "query", "key"],
    ids=["slopes", "table", "content", "query", "key"],
)
def test_scores_depend_on_the_distance(lengths: list[int], scores: RelativeScores | str) -> None:
    if isinstance(scores, str):
        both = content(lengths)
        scores = {
            "content": both,
            "query": replace(both, key_scores=None),
            "key": replace(both, query_scores=None),
        }[scores]
    check(lengths, heads_of(lengths, 16), scores=scores)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 0, 3, 30])
@pytest.mark.parametrize("softcap", [0.0, 1.5])
def test_a_query_sees_what_it_may(causal: bool, window: int | None, softcap: float) -> None:
    lengths = [0, 80, 1]
    scores = RelativeScores(table=TABLE)
    visible = Visibility(causal, window)
    check(lengths, heads_of(lengths, 8), softcap=softcap, visible=visible, scores=scores)


def test_keys_that_are_not_attended_to_are_not_read() -> None:
    lengths, counts = [5, 40, 7], [5, 1, 3]
    heads = heads_of(lengths, 16)
    split(heads[1], lengths)[1][1:] = float("nan")
    split(heads[2], lengths)[1][1:] = float("nan")
    found = attend(
        *(*heads, ends_of(lengths), 40, 1.0, 0.0),
        Visibility(key_counts=torch.tensor(counts, dtype=torch.int32)),
    )
    assert found[BEFORE : BEFORE + 52].isfinite().all()
    heads = heads_of(lengths, 16)
    check(lengths, heads, visible=Visibility(key_counts=torch.tensor(counts, dtype=torch.int32)))


@pytest.mark.parametrize("size", [2, 33, 256])
def test_heads_of_queries_share_keys(size: int) -> None:
    lengths = [33, 5]
    check(lengths, heads_of(lengths, size, 1), tolerance=2e-5)


def test_half_precision_is_close() -> None:  # the interpreter has no products in bfloat16
    lengths = [70, 3]
    check(lengths, heads_of(lengths, 32, dtype=torch.float16), tolerance=1e-2)


@pytest.mark.parametrize("visible", [Visibility(), Visibility(window=20)], ids=str)
def test_a_text_has_the_same_bits_in_every_batch(visible: Visibility) -> None:
    alone = heads_of([70], 16)
    expected = split(attend(*alone, ends_of([70]), 70, 0.3, 0.0, visible), [70])[0]
    many = [20, 70, 1]
    among = heads_of(many, 16)
    for part, text in zip(among, alone, strict=True):
        split(part, many)[1].copy_(split(text, [70])[0])
    for longest in (70, 512):
        found = attend(*among, ends_of(many), longest, 0.3, 0.0, visible)
        assert torch.equal(split(found, many)[1], expected)


def test_the_keys_of_a_step_do_not_depend_on_the_lengths() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for size in (16, 256):
            assert len({Blocks.of(size, n, dtype).key_block for n in (1, 20, 512)}) == 1


@pytest.mark.parametrize("part", [0, 1, 2])
def test_what_is_not_finite_stays_in_its_text(part: int) -> None:
    lengths = [2, 40, 3]
    heads = heads_of(lengths, 16)
    split(heads[part], lengths)[1][20, 1] = float("nan")
    found = split(attend(*heads, ends_of(lengths), 40, 1.0), lengths)
    assert [bool(each.isfinite().all()) for each in found] == [True, False, True]
