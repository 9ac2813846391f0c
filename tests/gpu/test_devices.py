"""Tests of several GPUs."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from embedwell_models.embedder import Embedder
from embedwell_models.vectors import normalize
from tests.gpu.card import since_ampere
from tests.models.classic.canine_files import write_canine

pytestmark = [
    *(pytest.mark.gpu, since_ampere),
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs"),
]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_vectors_of_the_second_are_those_of_the_first(
    minilm_folder: Path, texts: Sequence[str], dtype: str
) -> None:
    first, second = (
        Embedder.load(minilm_folder, device=name, dtype=dtype) for name in ("cuda:0", "cuda:1")
    )
    assert torch.cuda.current_device() == 0
    second.warm()
    expected = first.embed(texts)
    with ThreadPoolExecutor(1) as other_thread:
        found = other_thread.submit(second.embed, texts).result()
    assert (normalize(found) * normalize(expected)).sum(axis=1).min() > 0.9999


def test_an_encoder_with_layers_of_its_own_computes_on_the_second(tmp_path: Path) -> None:
    write_canine(tmp_path)
    rows = [[*range(40, 90)], [65, 66, 67]]
    first, second = (
        Embedder.load(tmp_path, device=name).encode(rows) for name in ("cuda:0", "cuda:1")
    )
    assert torch.cuda.current_device() == 0
    assert (normalize(first) * normalize(second)).sum(axis=1).min() > 0.9999
