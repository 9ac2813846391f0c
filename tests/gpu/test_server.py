"""Tests of a real server on a GPU."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from embedwell_models.embedder import Embedder
from tests.service.server import Server

pytestmark = pytest.mark.gpu


def test_a_server_on_a_gpu_answers_as_the_processor_does(
    tmp_path: Path, embedder: Embedder, texts: list[str]
) -> None:
    with Server(tmp_path / "log", device="cuda", dtype="auto") as server:
        engine = server.client.get("/info").json()["engine"]
        assert engine["device"].startswith("cuda") and engine["dtype"] in ("bfloat16", "float16")
        assert engine["graphs"]["state"] == "on" and not engine["graphs"]["failed"]
        assert 2048 <= engine["max_batch_tokens"] <= 65536
        whole = server.post("/embed", {"inputs": texts}).json()
        with ThreadPoolExecutor(8) as pool:
            each = list(pool.map(lambda text: server.post("/embed", {"inputs": text}), texts))
    alone = [answer.json()[0] for answer in each]
    expected = embedder.embed(texts)
    for found in (np.array(whole), np.array(alone)):
        assert (found * expected).sum(axis=1).min() >= 0.999
