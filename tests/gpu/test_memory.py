"""Tests of a GPU whose memory is full."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from embedwell.engine.wire.messages import Job, Result, pack_jobs
from embedwell.engine.worker.batch_sizing import BatchSizing, choose_batch_limit
from embedwell.engine.worker.loop import Loop
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.batch import FlatRows
from embedwell_models.outputs.names import DENSE
from tests.service.rig import FakeConnection, FakeConnections

pytestmark = pytest.mark.gpu

TEXTS = 3000  # of 256 tokens: in float32 several gigabytes


@pytest.fixture
def little() -> Iterator[None]:
    """Limit the process to one more gigabyte than it has."""
    torch.cuda.empty_cache()
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 2**30) / whole)
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


def test_a_batch_too_large_for_the_memory_is_answered_in_parts(
    minilm_folder: Path, little: None, caplog: pytest.LogCaptureFixture
) -> None:
    gpu = Embedder.load(minilm_folder, device="cuda", dtype="float32")
    rows = [np.full(256, 1000 + n, dtype=np.int32) for n in range(TEXTS)]
    with pytest.raises(torch.OutOfMemoryError):
        gpu.encode(rows)
    connection, connections = FakeConnection(), FakeConnections()
    connections.received.append((connection, pack_jobs([(1, Job(DENSE, FlatRows.of(rows)))])))
    Loop(connections, gpu, BatchSizing(TEXTS * 256), 1.0).run()
    found = connection.sent[1]
    assert isinstance(found, Result) and "OutOfMemoryError" in caplog.text
    alone = gpu.encode(rows[-2:], normalized=False)
    np.testing.assert_allclose(found.vectors[-2:], alone, atol=1e-4)


def test_a_budget_is_found_however_little_memory_there_is(
    minilm_folder: Path, little: None
) -> None:
    gpu = Embedder.load(minilm_folder, device="cuda", dtype="float16")
    gpu.warm()
    limit = choose_batch_limit(gpu, 0)
    assert 2048 <= limit.tokens <= 65536 and limit.rate > 0
