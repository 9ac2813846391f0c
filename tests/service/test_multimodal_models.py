"""Servers of models that read texts and images: vectors of each, limits, roles and tasks."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.hub.sources import resolve
from embedwell_models.vectors import maxsim
from tests.models.image_models import encoded, picture
from tests.models.jina_v4 import write_jina_v4
from tests.models.nemotron_vl import write_nemotron_vl
from tests.models.nomic_multimodal import write_nomic_multimodal
from tests.models.qwen2_vl import OF_KERNELS, write_gme
from tests.service.image_inputs import content, data_url, image
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.server import HttpServer

WIDE, SMALL, TEXT = encoded(picture(150, 60)), encoded(picture(40, 70, 1), "JPEG"), "the license"
PAGES = [WIDE, encoded(picture(90, 200, 1))]
IMAGES = [image(page) for page in PAGES]
PAGE_AND_TEXT = content([PAGES[0], TEXT])

Served = tuple[HttpServer, Embedder]


def served(folder: Path, name: str, **options: Any) -> Iterator[Served]:
    embedder = Embedder.load(folder, device="cpu", dtype="float32", **options)
    with local_server(folder, served_name=name, max_image_pixels=1 << 17, **options) as server:
        yield server, embedder


@pytest.fixture(scope="module")
def gme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    write_gme(path := tmp_path_factory.mktemp("gme"), **OF_KERNELS)
    yield from served(path, "gme")


@pytest.fixture(scope="module")
def nemotron(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    write_nemotron_vl(path := tmp_path_factory.mktemp("nemotron"))
    yield from served(path, "nemotron")


@pytest.fixture(scope="module")
def nomic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    write_nomic_multimodal(path := tmp_path_factory.mktemp("nomic"), **OF_KERNELS)
    yield from served(resolve(str(path / "nomic"), cache=path / "cache"), "nomic")


@pytest.fixture(scope="module")
def jina(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    write_jina_v4(path := tmp_path_factory.mktemp("jina"), **OF_KERNELS)
    yield from served(path, "jina", adapter="retrieval")


@pytest.mark.parametrize(
    ("model", "request_options", "options"),
    [
        ("gme", {"prompt": "Find it."}, {"prompt": "Find it."}),
        ("nemotron", {"input_type": "query"}, {"prompt_name": "query"}),
        ("nemotron", {"input_type": "document"}, {"prompt_name": "document"}),
    ],
)
def test_texts_images_and_both_have_the_vectors_of_the_library(
    request: pytest.FixtureRequest,
    model: str,
    request_options: dict[str, str],
    options: dict[str, Any],
) -> None:
    server, embedder = request.getfixturevalue(model)
    inputs = [TEXT, image(WIDE), content([SMALL, TEXT])]
    found = vectors(server.post("/embed", {"inputs": inputs, **request_options}))
    contents: list[list[str | bytes]] = [[TEXT], [WIDE], [SMALL, TEXT]]
    np.testing.assert_allclose(found, embedder.embed_contents(contents, **options), atol=1e-6)


@pytest.mark.parametrize("model", ["gme", "nemotron"])
def test_large_images_are_refused(request: pytest.FixtureRequest, model: str) -> None:
    server, _ = request.getfixturevalue(model)
    large = image(encoded(picture(400, 400)))
    fault = error(server.post("/embed", {"inputs": ["a", large]}), 400)
    assert fault["code"] == "invalid_image" and fault["index"] == 1
    assert "the limit is 131072" in fault["message"]
    fault = error(server.post("/embed", {"inputs": content([WIDE] * 40)}), 400)
    assert fault["code"] == "input_too_long"


def test_the_examples_of_nemotrons_page_run(nemotron: Served) -> None:
    server, _ = nemotron
    page = (Path(__file__).parents[2] / "docs" / "image-inputs.md").read_text(encoding="utf-8")
    section = page.split("### Llama Nemotron Embed VL")[1].split("## ")[0]
    bodies = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    inputs = [json.loads(body.replace("data:…", data_url(WIDE))) for body in bodies]
    assert [len(vectors(server.post("/embed", each))) for each in inputs] == [1, 2]


def test_a_tile_counts_as_its_tokens(nemotron: Served) -> None:
    server, embedder = nemotron
    usage = server.post("/v1/embeddings", {"input": [image(WIDE)], "model": "nemotron"})
    assert embedder.patches is not None
    pixels = embedder.patches.pixels(WIDE, 1 << 17)
    (ids,) = embedder.tokenize([embedder.patches.text([pixels])])
    assert usage.json()["usage"]["prompt_tokens"] == len(ids)
    assert embedder.patches.tokens(pixels) in range(4, len(ids))


def test_the_role_of_a_query_changes_texts_and_no_pages(nomic: Served) -> None:
    server, embedder = nomic
    body = {"inputs": [TEXT, *IMAGES], "input_type": "query"}
    query, *pages = vectors(server.post("/embed", body))
    np.testing.assert_allclose(query, embedder.embed(TEXT, prompt_name="query"), atol=1e-6)
    np.testing.assert_allclose(pages, embedder.embed_images(PAGES), atol=1e-6)
    (plain,) = vectors(server.post("/embed", {"inputs": TEXT, "input_type": "document"}))
    np.testing.assert_allclose(plain, embedder.embed(TEXT), atol=1e-6)
    assert np.abs(query - plain).max() > 0.01


def test_similarity_compares_a_query_with_pages(nomic: Served) -> None:
    server, embedder = nomic
    body = {"a": [TEXT], "b": IMAGES, "input_type": "query"}
    found = server.post("/similarity", body).json()["scores"]
    query = embedder.embed([TEXT], prompt_name="query")
    np.testing.assert_allclose(found, query @ embedder.embed_images(PAGES).T, atol=1e-5)


def test_a_text_with_a_page_has_the_vector_of_the_library(nomic: Served) -> None:
    server, embedder = nomic
    (found,) = vectors(server.post("/embed", {"inputs": PAGE_AND_TEXT}))
    np.testing.assert_allclose(found, embedder.embed_contents([[PAGES[0], TEXT]])[0], atol=1e-6)


def test_texts_and_images_have_the_vectors_of_the_library(jina: Served) -> None:
    server, embedder = jina
    body = {"inputs": [TEXT, *IMAGES], "input_type": "document"}
    text, *images = vectors(server.post("/embed", body))
    np.testing.assert_allclose(text, embedder.embed(TEXT, prompt_name="passage"), atol=1e-6)
    np.testing.assert_allclose(images, embedder.embed_images(PAGES), atol=1e-6)
    (query,) = vectors(server.post("/embed", {"inputs": TEXT}))
    np.testing.assert_allclose(query, embedder.embed(TEXT, prompt_name="query"), atol=1e-6)


def test_tokens_of_texts_and_images_have_vectors(jina: Served) -> None:
    server, embedder = jina
    body = {"input": [TEXT, *IMAGES], "input_type": "document", "model": "jina"}
    found = [item["embeddings"] for item in server.post("/v1/multi-vector", body).json()["data"]]
    expected = [embedder.embed_tokens(TEXT), *embedder.embed_pages(PAGES)]
    for matrix, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(matrix), other, atol=1e-6)


def test_images_are_ranked_by_the_vectors_of_tokens(jina: Served) -> None:
    server, embedder = jina
    body = {"query": TEXT, "documents": IMAGES, "model": "jina"}
    ranked = server.post("/rerank", body).json()["results"]
    query = embedder.embed_tokens(TEXT, "query")
    scores = [maxsim(query, page) for page in embedder.embed_pages(PAGES)]
    found = {item["index"]: item["relevance_score"] for item in ranked}
    np.testing.assert_allclose([found[0], found[1]], scores, rtol=1e-4)


def test_a_text_with_an_image_is_refused_by_jina_v4(jina: Served) -> None:
    server, _ = jina
    response = server.post("/embed", {"inputs": PAGE_AND_TEXT})
    assert "one text or one image" in error(response, 400)["message"]
