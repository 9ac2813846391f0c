"""Tests that the host waits for a GPU only once it wants the vectors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from embedwell_models.embedder import Embedder
from tests.models.families.checkpoint import Case
from tests.models.families.every import TEXTS, every_family, write_model

pytestmark = pytest.mark.gpu


@contextmanager
def unwaited() -> Iterator[None]:
    """Refuse calls that wait for all work of the GPU; waiting for an event is allowed."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@every_family
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("prompt_token_count", [0, 1])
def test_a_pass_is_started_without_waiting_for_another(
    case: Case, dtype: str, prompt_token_count: int, tmp_path: Path
) -> None:
    write_model(case, tmp_path)
    gpu = Embedder.load(tmp_path, device="cuda", dtype=dtype)
    ids = gpu.tokenize(TEXTS)
    gpu.warm()
    gpu.encode(ids)  # what is made at first use
    with unwaited():
        gpu.encode(ids, prompt_token_counts=[prompt_token_count] * len(ids))
