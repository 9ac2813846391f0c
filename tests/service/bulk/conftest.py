"""Fixtures of bulk runs: a small model of random weights."""

import pytest

from embedwell_bulk.local_model import LocalModel
from embedwell_models.embedder import Embedder
from tests.conftest import Folder


@pytest.fixture(scope="session")
def small(tiny_bert: Folder) -> LocalModel:
    """A small BERT."""
    embedder = Embedder.load(tiny_bert(), device="cpu", dtype="float32")
    return LocalModel(embedder, "small")
