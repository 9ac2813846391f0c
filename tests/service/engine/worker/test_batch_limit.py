"""Tests of the batch limit, with fake devices and a real model."""

from collections.abc import Mapping

import pytest
import torch

from embedwell.engine.worker.batch_limit import (
    BatchLimit,
    choose_batch_limit,
    find_gpu_batch_limit,
)
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.batch import Rows


class Device:
    """Returns tokens per second by the tokens of a batch; out of memory for any others."""

    def __init__(self, rates: Mapping[int, float]) -> None:
        self.rates = rates
        self.tried: list[int] = []

    def __call__(self, tokens: int) -> float:
        self.tried.append(tokens)
        if tokens not in self.rates:
            raise torch.OutOfMemoryError
        return self.rates[tokens]


@pytest.mark.parametrize(
    ("rates", "best", "tried"),
    [
        ({2048: 100, 4096: 106, 8192: 110}, 4096, 3),  # 110 is not 5 % more than 106
        ({2048: 100, 4096: 104}, 2048, 2),
        ({2048: 100, 4096: 200}, 4096, 3),  # then the memory is full
        ({2048: 100}, 2048, 2),
        ({2048 << n: 2.0**n for n in range(9)}, 65536, 6),
    ],
)
def test_the_budget_doubles_while_that_is_faster(
    rates: Mapping[int, float], best: int, tried: int
) -> None:
    device = Device(rates)
    assert find_gpu_batch_limit(device) == BatchLimit(best, rates[best])
    assert device.tried == [2048 << n for n in range(tried)]


class RecordingModel:
    """Records the lengths of each batch."""

    def __init__(self, device: str, max_length: int) -> None:
        self.device, self.max_length = torch.device(device), max_length
        self.batches: list[list[int]] = []

    def try_out(self, ids: Rows) -> None:
        self.batches.append([len(row) for row in ids])
        if len(self.batches) > 3:
            raise torch.OutOfMemoryError


def test_a_cpu_is_measured_once_with_the_longest_texts() -> None:
    model = RecordingModel("cpu", 512)
    assert choose_batch_limit(model, 0).tokens == 2048
    assert model.batches == [[512] * 4]


def test_a_requested_budget_is_used() -> None:
    for device in ("cpu", "meta"):
        model = RecordingModel(device, 512)
        assert choose_batch_limit(model, 300).tokens == 300
        assert model.batches == [[300]]


def test_a_gpu_is_measured_with_texts_of_typical_length() -> None:
    model = RecordingModel("meta", 8192)
    assert choose_batch_limit(model, 0).tokens == 2048
    assert model.batches == [[256] * 8] * 3 + [[256] * 16]


def test_a_real_model_has_a_rate(embedder: Embedder) -> None:
    assert choose_batch_limit(embedder, 64).rate > 0
