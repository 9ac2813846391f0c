"""Tests of older encoders behind the server."""

from pathlib import Path

import numpy as np

from models.convert.laser import convert_laser
from models.embedder import Embedder
from models.vectors import normalize
from tests.models.laser_files import write_laser2
from tests.service.local_server import local_server

TEXTS = ["The cat sat.", "a work"]


def test_laser_2_is_served(tmp_path: Path) -> None:
    write_laser2(tmp_path / "laser2.pt")
    convert_laser(tmp_path / "laser2.pt", tmp_path / "model")
    expected = normalize(Embedder.load(tmp_path / "model", device="cpu").embed(TEXTS))
    with local_server(tmp_path / "model") as server:
        vectors = server.post("/embed", {"inputs": TEXTS}).json()
        np.testing.assert_allclose(vectors, expected, atol=1e-6)
        (tokens,) = server.post("/tokens", {"inputs": "a work", "layer": 0}).json()["results"]
        assert tokens["tokens"][-1]["text"] == "</s>"
