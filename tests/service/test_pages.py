"""Images of pages in the requests of each API, against the model's own vectors."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.vectors import Floats, maxsim
from tests.models.colidefics3 import write_colidefics3
from tests.models.colmodernvbert import write_colmodernvbert
from tests.models.colpali import write_colpali
from tests.models.colqwen2 import write_colqwen2
from tests.models.colqwen3 import write_colqwen3
from tests.models.image_models import encoded, picture
from tests.service.image_inputs import image
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

PAGES = [encoded(picture(150, 61)), encoded(picture(64, 64, 1), "JPEG")]
QUERY, TEXT = "the license", "a work of any kind"


INPUTS: list[Any] = [TEXT, image(PAGES[0]), image(PAGES[1]), QUERY]


_WRITERS: Mapping[str, Callable[[Path], object]] = {
    "tiles": write_colmodernvbert,
    "square": write_colpali,
    "patches": write_colqwen2,
    "formatted_documents": write_colqwen3,
    "causal_tiles": write_colidefics3,
}


@pytest.fixture(scope="module", params=_WRITERS)
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    path = tmp_path_factory.mktemp("pages")
    _WRITERS[request.param](path)
    return path


@pytest.fixture(scope="module")
def embedder(folder: Path) -> Embedder:
    return Embedder.load(folder, device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def expected(embedder: Embedder) -> list[Floats]:
    first, last = embedder.embed_tokens([TEXT, QUERY])
    return [first, *embedder.embed_pages(PAGES), last]


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    settings: dict[str, Any] = {"max_image_pixels": 1 << 17, "vector_cache_bytes": 1 << 20}
    with local_server(folder, served_name="pages", **settings) as server:
        yield server


def assert_same(found: list[Any], expected: list[Floats]) -> None:
    for matrix, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(matrix), other, atol=1e-6)


def test_embed_takes_texts_and_pages(server: HttpServer, expected: list[Floats]) -> None:
    found = server.post("/embed", {"inputs": INPUTS}).json()
    assert_same(found, expected)
    again = server.post("/embed", {"inputs": INPUTS[1]}).json()  # from the cache
    assert again == [found[1]]
    described = server.post("/embed", {"inputs": INPUTS, "details": True}).json()
    assert described["multi"] == found
    assert [*map(len, described["token_ids"])] == [*map(len, expected)]
    assert [row["tokens"] for row in described["inputs"]] == [*map(len, expected)]


def test_other_routes_take_pages(server: HttpServer, expected: list[Floats]) -> None:
    data = server.post("/v1/multi-vector", {"input": INPUTS[:3]}).json()["data"]
    assert_same([item["embeddings"] for item in data], expected[:3])
    data = server.post("/v1/multi-vector", {"input": image(PAGES[1])}).json()["data"]
    assert_same([item["embeddings"] for item in data], expected[2:3])
    body = {"input": [{"text": TEXT}, INPUTS[1]], "return_multivector": True}
    data = server.post("/v1/embeddings", body).json()["data"]
    assert_same([item["embeddings"] for item in data], expected[:2])


def test_a_page_has_no_prompt(server: HttpServer, expected: list[Floats]) -> None:
    body = {"inputs": [INPUTS[1]], "input_type": "query"}
    assert_same(server.post("/embed", body).json(), expected[1:2])


def test_similarity_compares_queries_with_texts_and_pages(
    server: HttpServer, embedder: Embedder, expected: list[Floats]
) -> None:
    query = embedder.embed_tokens(QUERY, "query")
    scores = [maxsim(query, document) for document in expected[:3]]
    found = server.post("/similarity", {"a": [QUERY], "b": INPUTS[:3]}).json()
    np.testing.assert_allclose(found["scores"], [scores], rtol=1e-5)
    found = server.post("/similarity", {"a": image(PAGES[0]), "b": INPUTS[1:2]}).json()
    np.testing.assert_allclose(found["scores"], [[len(expected[1])]], rtol=1e-5)


def test_reranking_takes_texts_and_pages(
    server: HttpServer, embedder: Embedder, expected: list[Floats]
) -> None:
    query = embedder.embed_tokens(QUERY, "query")
    scores = [maxsim(query, document) for document in expected[:3]]
    body = {"model": "pages", "query": QUERY, "documents": [{"text": TEXT}, *INPUTS[1:3]]}
    for path in ("/rerank", "/v2/rerank"):
        results = server.post(path, body).json()["results"]
        found = {result["index"]: result["relevance_score"] for result in results}
        np.testing.assert_allclose([found[i] for i in range(3)], scores, rtol=1e-5)
    repeated = error(server.post("/rerank", {**body, "return_documents": True}), 400)
    assert "repeats no images" in repeated["message"]
    broken = {**body, "documents": [TEXT, {"image": "data:"}]}
    response = error(server.post("/rerank", broken), 400)
    assert (response["code"], response["index"]) == ("invalid_image", 1)


def test_an_error_names_the_page(server: HttpServer) -> None:
    broken = {"image": "data:"}
    response = server.post("/embed", {"inputs": [TEXT, broken]})
    assert (error(response, 400)["code"], error(response, 400)["index"]) == ("invalid_image", 1)
    response = server.post("/v1/multi-vector", {"input": [broken]})
    assert error(response, 400)["code"] == "invalid_image"
    response = server.post("/similarity", {"a": [QUERY], "b": [TEXT, broken]})
    assert (error(response, 400)["code"], error(response, 400)["index"]) == ("invalid_image", 1)
    large = image(encoded(picture(500, 300)))
    response = server.post("/embed", {"inputs": [large]})
    assert error(response, 400)["code"] == "invalid_image"
    both = {"content": [{"type": "text", "text": TEXT}, {"type": "text", "text": TEXT}]}
    response = server.post("/embed", {"inputs": [both]})
    assert error(response, 400)["code"] == "not_offered"


@pytest.mark.full
def test_the_examples_of_the_documentation_run(server: HttpServer, folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "multi-vector.md").read_text(encoding="utf-8")
    [body] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    [vector] = server.post("/embed", json.loads(body)).json()
    assert len(vector) == 20 * 2**5 * 16, "the page says how many dimensions it has"
    [code] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"image": PAGES[0]}
    exec(code.replace("ModernVBERT/colmodernvbert-merged", str(folder)), names)
    assert len(names["scores"]) == 1


def test_info_names_images(server: HttpServer) -> None:
    assert server.client.get("/info").json()["modalities"] == ["text", "image"]
