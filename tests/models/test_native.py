"""The compiled attention against its twin on torch."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models import native
from models.attention import attend, choose
from models.packing import Packing
from models.positions import Positions

CPU = torch.device("cpu")
PRECISIONS = [torch.float32, torch.bfloat16]
# Without a compiler at installation there is no library, and `choose` gives torch's attention:
# the comparisons below then compare it with itself.
BUILT = native.LIBRARY.exists()


def random_qkv(packing: Packing, heads: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(packing.tokens + heads)
    qkv = torch.randn(packing.rows, 3, heads, size, generator=generator) * 2
    return qkv.to(dtype)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_the_compiled_attention_is_chosen_where_it_was_built(dtype: torch.dtype) -> None:
    assert (choose(CPU, dtype, 32, biased=False) is not attend) is BUILT


@pytest.mark.parametrize(
    ("dtype", "size", "biased"),
    [(torch.float16, 32, False), (torch.float32, 20, False), (torch.float32, 32, True)],
)
def test_torch_attends_where_the_compiled_one_cannot(
    dtype: torch.dtype, size: int, biased: bool
) -> None:
    assert choose(CPU, dtype, size, biased) is attend


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 300), min_size=1, max_size=12),
    heads=st.sampled_from([1, 3, 12]),
    size=st.sampled_from([16, 32, 48, 64]),
    dtype=st.sampled_from(PRECISIONS),
)
def test_it_equals_its_twin(lengths: list[int], heads: int, size: int, dtype: torch.dtype) -> None:
    packing, exact = Packing(lengths, CPU, dtype), Packing(lengths, CPU)
    qkv = random_qkv(packing, heads, size, dtype)
    found = choose(CPU, dtype, size, biased=False)(qkv, packing, Positions())
    expected = attend(qkv.to(torch.float32), exact, Positions())
    assert found.dtype == dtype and found.shape == expected.shape
    close = 3e-5 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(found.to(torch.float32), expected, atol=close, rtol=close)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_a_sequence_is_the_same_bits_in_every_batch(dtype: torch.dtype) -> None:
    lengths = [1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 200]
    chosen = choose(CPU, dtype, 32, biased=False)
    whole = Packing(lengths, CPU, dtype)
    qkv = random_qkv(whole, 12, 32, dtype)
    together = chosen(qkv, whole, Positions())
    for start, length in zip(whole.starts.tolist(), lengths, strict=True):
        alone = Packing([length], CPU, dtype)
        rows = torch.zeros(alone.rows, *qkv.shape[1:], dtype=dtype)
        rows[:length] = qkv[start : start + length]
        found = chosen(rows, alone, Positions())[:length]
        assert torch.equal(found, together[start : start + length])


def test_scores_far_apart_do_not_overflow() -> None:
    packing = Packing([20], CPU)
    qkv = random_qkv(packing, 2, 16, torch.float32) * 1000
    found = choose(CPU, torch.float32, 16, biased=False)(qkv, packing, Positions())
    torch.testing.assert_close(found, attend(qkv, packing, Positions()), rtol=1e-4, atol=1e-2)


def test_rows_of_no_sequence_are_zero() -> None:
    packing = Packing([33], CPU)
    qkv = torch.full((packing.rows, 3, 2, 16), 5.0)
    found = choose(CPU, torch.float32, 16, biased=False)(qkv, packing, Positions())
    assert packing.rows > 33 and not found[33:].any() and found[:33].all()


def test_a_library_that_is_missing_or_broken_is_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert native.load(torch.float32, tmp_path / "none.so") is None
    broken = tmp_path / "broken.so"
    broken.write_text("this is no library")
    assert native.load(torch.float32, broken) is None
    assert "attention runs on torch" in caplog.text
