"""A server of Jina v4: vectors of texts and images, and of their tokens, by task."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.vectors import maxsim
from tests.models.image_models import encoded, picture
from tests.models.jina_v4 import write_jina_v4
from tests.models.qwen2_vl import OF_KERNELS
from tests.service.image_inputs import image
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.server import HttpServer

PAGES, TEXT = [encoded(picture(150, 60)), encoded(picture(90, 200, 1))], "the license"
IMAGES = [image(page) for page in PAGES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jina")
    write_jina_v4(path, **OF_KERNELS)
    return path


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32", adapter="retrieval")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    options: dict[str, Any] = {
        "served_name": "jina",
        "adapter": "retrieval",
        "max_image_pixels": 1 << 17,
    }
    with local_server(folder, **options) as server:
        yield server


def test_texts_and_images_have_the_vectors_of_the_library(
    server: HttpServer, embedder: Embedder
) -> None:
    body = {"inputs": [TEXT, *IMAGES], "input_type": "document"}
    text, *images = vectors(server.post("/embed", body))
    np.testing.assert_allclose(text, embedder.embed(TEXT, prompt_name="passage"), atol=1e-6)
    np.testing.assert_allclose(images, embedder.embed_images(PAGES), atol=1e-6)
    (query,) = vectors(server.post("/embed", {"inputs": TEXT}))
    np.testing.assert_allclose(query, embedder.embed(TEXT, prompt_name="query"), atol=1e-6)


def test_tokens_of_texts_and_images_have_vectors(server: HttpServer, embedder: Embedder) -> None:
    body = {"input": [TEXT, *IMAGES], "input_type": "document", "model": "jina"}
    found = [item["embeddings"] for item in server.post("/v1/multi-vector", body).json()["data"]]
    expected = [embedder.embed_tokens(TEXT), *embedder.embed_pages(PAGES)]
    for matrix, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(matrix), other, atol=1e-6)


def test_images_are_ranked_by_the_vectors_of_tokens(server: HttpServer, embedder: Embedder) -> None:
    body = {"query": TEXT, "documents": IMAGES, "model": "jina"}
    ranked = server.post("/rerank", body).json()["results"]
    query = embedder.embed_tokens(TEXT, "query")
    scores = [maxsim(query, page) for page in embedder.embed_pages(PAGES)]
    found = {item["index"]: item["relevance_score"] for item in ranked}
    np.testing.assert_allclose([found[0], found[1]], scores, rtol=1e-4)


def test_a_text_beside_an_image_is_refused(server: HttpServer) -> None:
    parts = [{"type": "image_url", "image_url": {"url": IMAGES[0]["image"]}}]
    content = [*parts, {"type": "text", "text": TEXT}]
    response = server.post("/embed", {"inputs": {"content": content}})
    assert "one text or one image" in error(response, 400)["message"]
