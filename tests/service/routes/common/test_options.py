"""The fields of each route for texts that are too long, as errors name them."""

from collections.abc import Iterator
from typing import Any

import pytest

from embedwell_models.hub.sources import DEFAULT
from tests.conftest import Folder
from tests.service.local_server import local_server
from tests.service.server import HttpServer, error_of

LONG = "word " * 600
TEXT_PART = {"type": "text", "text": LONG}


@pytest.fixture(scope="module")
def strict_server(tiny_bert: Folder) -> Iterator[HttpServer]:
    settings: dict[str, Any] = {"model": tiny_bert({}), "auto_truncate": False}
    with local_server(**settings) as running:
        yield running


@pytest.mark.parametrize(
    ("path", "body", "fields"),
    [
        ("/embed", {"inputs": LONG}, "on_overflow or truncate"),
        ("/v1/embeddings", {"input": LONG}, "truncate or truncation"),
        ("/api/embed", {"input": LONG, "truncate": False}, "truncate"),
        ("/v2/embed", {"texts": [LONG], "truncate": "NONE"}, "truncate"),
        ("/v1/multimodalembeddings", {"inputs": [{"content": [TEXT_PART]}]}, "truncation"),
        ("/pooling", {"input": LONG, "task": "embed"}, "truncate_prompt_tokens"),
        ("/tokens", {"inputs": LONG}, "on_overflow or truncate"),
        ("/api/embeddings", {"prompt": LONG}, "the setting EMBEDWELL_AUTO_TRUNCATE of the server"),
    ],
)
def test_the_error_of_a_long_text_names_the_fields_of_the_route_that_allow_truncation(
    strict_server: HttpServer, path: str, body: dict[str, Any], fields: str
) -> None:
    response = strict_server.post(path, {"model": DEFAULT, **body})
    assert response.status_code == 400
    assert error_of(response)["message"].endswith(f"shorten it, or allow truncation with {fields}")


def test_an_input_of_a_partial_response_names_them_too(strict_server: HttpServer) -> None:
    response = strict_server.post("/embed", {"inputs": ["a", LONG], "partial": True}).json()
    message = response["results"][1]["error"]["message"]
    assert message.endswith("allow truncation with on_overflow or truncate")
