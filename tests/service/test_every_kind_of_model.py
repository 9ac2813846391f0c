"""Responses of every kind of model to requests without a body."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from embedwell_classic.convert.word_embeddings import convert_words
from tests.models.colbert import write_colbert
from tests.models.cross_encoder import write_cross_encoder
from tests.models.listwise_reranker import write_listwise_reranker
from tests.models.sparse_encoder import write_bge_m3, write_inference_free, write_splade
from tests.models.tiny import VOCABULARY
from tests.models.word_files import write_fasttext
from tests.service.local_server import local_server

ROUTES = (
    *("/info", "/v1/models", "/models", "/api/tags", "/api/ps", "/metrics", "/ready", "/health"),
    *("/v1/models/small", "/positions?scheme=rotary&count=2&dim=4", "/openapi.json"),
)


def inference_free(folder: Path) -> None:
    write_inference_free(folder, torch.ones(len(VOCABULARY)))


def multi_vector(folder: Path) -> None:
    write_colbert(folder.parent)


def words(folder: Path) -> None:
    convert_words(write_fasttext(folder.with_suffix(".bin")), folder)


@pytest.mark.full(after=3)
@pytest.mark.parametrize(
    ("write", "task", "has_dimensions"),
    [
        (write_splade, "embed", True),
        (inference_free, "embed", True),
        (write_bge_m3, "embed", True),
        (multi_vector, "multi_vector", True),
        (words, "embed", True),
        (write_cross_encoder, "rerank", False),
        (write_listwise_reranker, "rerank", False),
        (lambda folder: write_cross_encoder(folder, labels=3), "classify", False),
    ],
    ids=[
        *("splade", "inference-free", "bge-m3", "multi-vector", "words"),
        *("reranker", "listwise reranker", "classifier"),
    ],
)
def test_a_model_is_listed_and_described(
    write: Callable[[Path], object], task: str, has_dimensions: bool, tmp_path: Path
) -> None:
    write(tmp_path / "model")
    with local_server(tmp_path / "model", served_name="small") as server:
        for route in ROUTES:
            assert server.client.get(route).status_code == 200, route
        (model,) = server.client.get("/v1/models").json()["data"]
        assert model["task"] == task == server.client.get("/info").json()["task"]
        assert (model["dimensions"] is not None) == has_dimensions
        assert server.post("/api/show", {"model": "small"}).status_code == 200
