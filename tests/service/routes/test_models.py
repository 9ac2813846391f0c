"""GET /v1/models, as the clients of several APIs read it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models.cross_encoder import write_cross_encoder
from tests.service.local_server import local_server
from tests.service.routes.committed import check
from tests.service.server import HttpServer

CARD = {"task", "adapter", "dimensions", "state", "object", "created", "owned_by"}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    folder: Path = tmp_path_factory.mktemp("classifier")
    with local_server(write_cross_encoder(folder, labels=3), served_name="three") as server:
        yield server


def test_the_list_is_as_documented(server: HttpServer) -> None:
    response = server.client.get("/v1/models")
    check(response, "get", "/v1/models")
    listed = response.json()
    assert len(listed["data"]) == len(listed["models"]) == 2
    for card, cohere in zip(listed["data"], listed["models"], strict=True):
        assert card.keys() >= CARD
        assert {name: card[name] for name in ("name", "endpoints", "context_length")} == {
            name: cohere[name] for name in ("name", "endpoints", "context_length")
        }
        single = server.client.get(f"/v1/models/{card['id']}")
        check(single, "get", "/v1/models/{name}")
        assert single.json() == card


def test_xinferences_type_tells_what_a_model_does(
    server: HttpServer, classifier: HttpServer
) -> None:
    assert {card["model_type"] for card in server.client.get("/v1/models").json()["data"]} == {
        "embedding"
    }
    [card] = classifier.client.get("/v1/models").json()["data"]
    assert (card["model_type"], card["endpoints"]) == ("classify", ["classify"])
    assert card["capabilities"]["classification"] is True


def test_the_list_for_cohere_is_of_an_endpoint(server: HttpServer, classifier: HttpServer) -> None:
    for endpoint, count in (("embed", 2), ("rerank", 2), ("classify", 0), ("chat", 0)):
        listed = server.client.get("/v1/models", params={"endpoint": endpoint}).json()
        assert (len(listed["models"]), len(listed["data"])) == (count, 2)
    listed = classifier.client.get("/v1/models", params={"endpoint": "classify"}).json()
    assert [model["name"] for model in listed["models"]] == ["three"]
