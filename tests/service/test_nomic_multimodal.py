"""A server of nomic-embed-multimodal: queries, texts, pages, and their similarity."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.hub.sources import resolve
from tests.models.image_models import encoded, picture
from tests.models.nomic_multimodal import write_nomic_multimodal
from tests.models.qwen2_vl import OF_KERNELS
from tests.service.image_inputs import image
from tests.service.local_server import local_server
from tests.service.responses import vectors
from tests.service.server import HttpServer

PAGES, TEXT = [encoded(picture(150, 60)), encoded(picture(90, 200, 1))], "the license"
IMAGES = [image(page) for page in PAGES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nomic")
    write_nomic_multimodal(path, **OF_KERNELS)
    return resolve(str(path / "nomic"), cache=path / "cache")


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    with local_server(folder, served_name="nomic", max_image_pixels=1 << 17) as server:
        yield server


def test_the_role_of_a_query_changes_texts_and_no_pages(
    server: HttpServer, embedder: Embedder
) -> None:
    body = {"inputs": [TEXT, *IMAGES], "input_type": "query"}
    query, *pages = vectors(server.post("/embed", body))
    np.testing.assert_allclose(query, embedder.embed(TEXT, prompt_name="query"), atol=1e-6)
    np.testing.assert_allclose(pages, embedder.embed_images(PAGES), atol=1e-6)
    (plain,) = vectors(server.post("/embed", {"inputs": TEXT, "input_type": "document"}))
    np.testing.assert_allclose(plain, embedder.embed(TEXT), atol=1e-6)
    assert np.abs(query - plain).max() > 0.01


def test_similarity_compares_a_query_with_pages(server: HttpServer, embedder: Embedder) -> None:
    body = {"a": [TEXT], "b": IMAGES, "input_type": "query"}
    found = server.post("/similarity", body).json()["scores"]
    query = embedder.embed([TEXT], prompt_name="query")
    np.testing.assert_allclose(found, query @ embedder.embed_images(PAGES).T, atol=1e-5)


def test_a_text_beside_a_page_has_the_vector_of_the_library(
    server: HttpServer, embedder: Embedder
) -> None:
    parts = [{"type": "image_url", "image_url": {"url": IMAGES[0]["image"]}}]
    content = [*parts, {"type": "text", "text": TEXT}]
    (found,) = vectors(server.post("/embed", {"inputs": {"content": content}}))
    np.testing.assert_allclose(found, embedder.embed_contents([[PAGES[0], TEXT]])[0], atol=1e-6)
