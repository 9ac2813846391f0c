"""Tests of one pass through a model that fails on some texts."""

from collections.abc import Sequence

import pytest
import torch

from models.vectors import Floats
from service.engine.protocol.messages import Failure, Ids
from service.engine.worker.forward import Text, forward
from service.engine.worker.scheduler import Item
from tests.service.rig import BIG, BROKEN, HUGE, NAN, POISON, Sum, ids


def run(model: Sum, *rows: list[int]) -> list[float | Failure]:
    """The sum of each row, each the text of a job of its own whose place in it is its number."""
    texts = [
        Text(Item(number, number, len(row), "pooled"), ids(row), 0, "pooled", False)
        for number, row in enumerate(rows)
    ]
    return [_plain(found) for found in forward(model, texts)]


def _plain(found: Floats | Failure) -> float | Failure:
    return found if isinstance(found, Failure) else float(found[0])


def failures(found: Sequence[float | Failure]) -> dict[int, Failure]:
    return {place: one for place, one in enumerate(found) if isinstance(one, Failure)}


def test_a_pass_gives_each_text_its_vector() -> None:
    assert run(Sum(), [1, 2], [3]) == [3, 3]


def test_a_bad_text_fails_alone_and_only_the_log_says_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = run(Sum(), *([number] for number in range(5)), [POISON], [6], [7])
    assert found[:5] == [0, 1, 2, 3, 4] and found[6:] == [6, 7]
    assert failures(found)[5].index == 5
    assert "poison" not in failures(found)[5].message and "poison" in caplog.text


def test_a_batch_too_large_for_the_memory_is_split_when_its_own_memory_is_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = run(Sum(), *([BIG, number] for number in range(7)), [1])
    assert found == [*range(BIG, BIG + 7), 1]
    assert "8 texts of 15 tokens, in halves after OutOfMemoryError" in caplog.text
    assert "AssertionError" not in caplog.text


def test_a_text_too_large_for_the_memory_fails_alone_and_says_so() -> None:
    found = run(Sum(), [HUGE], [2], [3])
    assert found[1:] == [2, 3]
    assert "memory of the device is too small" in failures(found)[0].message


class Crowded(Sum):
    """There is memory for the pass of one text."""

    def encode(
        self, ids: Sequence[Ids], *, normalized: bool | None = None, skips: Sequence[int] = ()
    ) -> Floats:
        if len(ids) > 1 or HUGE in ids[0]:
            raise MemoryError("there is not enough")
        return super().encode(ids, normalized=normalized, skips=skips)


def test_a_processors_memory_is_as_a_devices() -> None:
    found = run(Crowded(), [1], [HUGE], [3])
    assert [found[0], found[2]] == [1, 3]
    assert "memory of the device is too small" in failures(found)[1].message


def test_a_device_that_fails_ends_the_engine() -> None:
    with pytest.raises(torch.AcceleratorError):
        run(Sum(), [BROKEN], [1])


def test_a_vector_that_is_not_finite_is_an_error_and_never_an_answer() -> None:
    found = run(Sum(), [1], [NAN], [2])
    assert (found[0], found[2]) == (1, 2)
    failure = failures(found)[1]
    assert "not finite" in failure.message and failure.index == 1 and not failure.finite


def test_a_vector_not_finite_is_named_by_its_place_in_its_job() -> None:
    (failure,) = forward(Sum(), [Text(Item(0, 4, 1, "pooled"), ids([NAN]), 0, "pooled", False)])
    assert isinstance(failure, Failure) and failure.index == 4
