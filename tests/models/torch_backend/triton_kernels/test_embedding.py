"""Tests of embedded rows in Triton's interpreter, compared with torch."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from embedwell_models.torch_backend.embedding_tables import EmbeddingTables
from embedwell_models.torch_backend.norm import LayerNorm, Norm, RMSNorm, identity
from embedwell_models.torch_backend.position_hooks import PaddedPositionTable, PositionTable
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.torch_backend.triton_kernels.embedding import embed_rows

pytestmark = pytest.mark.interpreter

CPU = torch.device("cpu")
WIDTH, VOCABULARY, PADDING = 20, 9, 2
NOISE = torch.Generator().manual_seed(1)
TOKENS, POSITIONS, SEGMENTS, PARAMETERS = (
    torch.randn(rows, WIDTH, generator=NOISE) for rows in (VOCABULARY, 150, 2, 2)
)
NORMS: dict[str, Norm] = {
    "layer": LayerNorm(PARAMETERS[0], PARAMETERS[1], 1e-3),
    "rms": RMSNorm(PARAMETERS[0], 1e-3),
    "none": identity,
}
PLAIN = EmbeddingTables(
    tokens=TOKENS,
    scale=1.0,
    segments=torch.zeros(1, 1),
    vocab_size=0,
    positions=None,
    padding=-1,
    norm=identity,
)


def in_torch(tables: EmbeddingTables, ids: Tensor, places: Tensor) -> Tensor:
    size = tables.vocab_size or VOCABULARY
    summed = tables.tokens.float()[ids % size] * tables.scale + tables.segments[ids // size]
    if tables.positions is not None:
        padded = PaddedPositionTable(tables.positions, tables.padding)
        hooks = PositionTable(tables.positions) if tables.padding < 0 else padded
        summed = hooks.embed(summed, ids % size, places)
    return tables.norm(summed)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("padding", [None, -1, PADDING])
@pytest.mark.parametrize("two_segments", [False, True])
def test_embedded_rows_are_those_of_torch(
    norm: str, padding: int | None, two_segments: bool
) -> None:
    tables = replace(
        PLAIN,
        scale=1.5,
        segments=SEGMENTS if two_segments else torch.zeros(1, 1),
        vocab_size=VOCABULARY if two_segments else 0,
        positions=None if padding is None else POSITIONS,
        padding=-1 if padding is None else padding,
        norm=NORMS[norm],
    )
    # Of a long text, those without a position are counted in several steps.
    lengths = [3, 1, 140 if padding == PADDING else 20]
    ids = torch.randint(0, (1 + two_segments) * VOCABULARY, (sum(lengths),), generator=NOISE)
    layout = SequenceLayout(lengths, CPU, ids=ids.tolist())
    found = embed_rows(tables, layout.ids, layout.positions, torch.float32)
    expected = in_torch(tables, layout.ids, layout.positions)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_sums_are_rounded_once(stored: torch.dtype) -> None:
    tables = replace(PLAIN, tokens=TOKENS.to(stored), segments=SEGMENTS, norm=NORMS["layer"])
    layout = SequenceLayout([4], CPU, ids=[1, 2, 3, 8])
    found = embed_rows(tables, layout.ids, layout.positions, torch.bfloat16)
    exact = in_torch(tables, layout.ids, layout.positions)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, exact.bfloat16(), atol=1e-6, rtol=1e-2)


def test_no_rows_are_embedded_without_ids() -> None:
    empty = torch.empty(0, dtype=torch.int32)
    assert embed_rows(PLAIN, empty, empty, torch.float32).shape == (0, WIDTH)
