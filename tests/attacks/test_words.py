"""Searches in a large table of words: each waits its turn, and too many are refused."""

import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from embedwell_classic.convert.word_embeddings import Choices, convert_words
from tests.attacks.harness import attack
from tests.service.server import Server

pytestmark = pytest.mark.attack

COUNT = 50_000
LARGE_BODY = "word " * 16_000


def write_words(folder: Path) -> Path:
    rows = np.random.default_rng(1).normal(0, 0.3, (COUNT, 100)).round(3)
    path = folder / "glove.txt"
    with path.open("w", encoding="utf-8") as file:
        for index, row in enumerate(rows.tolist()):
            file.write(f"w{index} {' '.join(map(str, row))}\n")
    convert_words(path, folder / "model", Choices())
    return folder / "model"


def test_many_searches_are_refused_or_answered_and_hold_no_other_request(tmp_path: Path) -> None:
    words = [f"w{index}" for index in range(200)]
    body = {"inputs": words, "k": 1000}  # ten times the work that one second allows
    with (
        Server(tmp_path / "log", model=write_words(tmp_path), max_wait_large=1) as server,
        attack("24 searches", server, inputs=["w1", LARGE_BODY]) as report,
        ThreadPoolExecutor(24) as clients,
    ):
        server.wait_ready()
        searches = [clients.submit(server.post, "/neighbors", body) for _ in range(24)]
        responses = [search.result() for search in searches]
    statuses = Counter(response.status_code for response in responses)
    sys.stdout.write(f"\n24 searches: {statuses}\n")
    assert set(statuses) == {200, 429}
    assert any("would wait" in response.text for response in responses)
    assert all("retry-after" in each.headers for each in responses if each.status_code == 429)
    report.check(growth=700)
