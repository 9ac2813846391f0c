"""The names that the served model goes by, on every route that is told one."""

from collections.abc import Iterator
from typing import Any

import pytest

from models.hub.sources import DEFAULT
from service.api.served_names import ServedNames
from service.errors import UnknownModel
from service.settings import Settings
from tests.conftest import Folder
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

ORIGIN = f"sentence-transformers/{DEFAULT}"
PLACEHOLDERS = ["tei", "text-embeddings-inference", "default/not-specified"]


@pytest.fixture(scope="module")
def two(tiny_bert: Folder) -> Iterator[HttpServer]:
    """A server whose model has two names, and a prompt for queries."""
    folder = tiny_bert({"config_sentence_transformers.json": {"prompts": {"query": "query: "}}})
    with local_server(folder, served_name="one, org/two:latest") as running:
        yield running


@pytest.fixture(scope="module")
def any_name(tiny_bert: Folder) -> Iterator[HttpServer]:
    """A server that accepts any name."""
    with local_server(tiny_bert(), served_name="mine,*") as running:
        yield running


def embed(server: HttpServer, model: str) -> Any:
    """The model of the answer, and the vector."""
    answer = server.post("/v1/embeddings", {"input": "red", "model": model})
    assert answer.status_code == 200, answer.text
    return answer.json()["model"], answer.json()["data"][0]["embedding"]


def asked(server: HttpServer, model: str) -> list[int]:
    """The status of each route that takes a name."""
    cohere = {"model": model, "input_type": "search_query", "texts": ["red"]}
    bodies = {
        "/v1/embeddings": {"model": model, "input": "red"},
        "/v2/embed": cohere,
        "/v1/embed": cohere,
        "/api/embed": {"model": model, "input": "red"},
        "/api/embeddings": {"model": model, "prompt": "red"},
    }
    posted = [server.post(path, body).status_code for path, body in bodies.items()]
    return [*posted, server.client.get(f"/v1/models/{model}").status_code]


@pytest.mark.parametrize(
    ("fields", "names", "any_name"),
    [
        ({}, [DEFAULT, ORIGIN], False),
        ({"model": "org/name"}, ["org/name", "name"], False),
        ({"model": ORIGIN}, [ORIGIN, DEFAULT], False),
        ({"served_name": "a"}, ["a"], False),
        ({"served_name": " a , org/b"}, ["a", "org/b"], False),
        ({"served_name": "b,a,b"}, ["b", "a"], False),
        ({"served_name": "*"}, [DEFAULT, ORIGIN], True),
        ({"served_name": "*,a"}, ["a"], True),
    ],
)
def test_the_names_are_those_of_the_setting_or_else_of_the_model(
    fields: dict[str, Any], names: list[str], any_name: bool
) -> None:
    settings = Settings(**fields)
    assert (settings.names, settings.any_name, settings.name) == (names, any_name, names[0])


@pytest.mark.parametrize("given", [",", "a,", "a,,b", " "])
def test_an_empty_name_among_several_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="a name is empty"):
        Settings(served_name=given)


@pytest.mark.parametrize("name", [DEFAULT, ORIGIN, *PLACEHOLDERS])
def test_the_bundled_model_answers_to_its_names_and_to_those_that_name_no_model(
    server: HttpServer, name: str
) -> None:
    assert asked(server, name) == [200] * 6
    assert embed(server, name) == embed(server, DEFAULT)


@pytest.mark.parametrize("name", ["one", "org/two:latest"])
def test_every_name_is_accepted_and_the_first_is_answered(two: HttpServer, name: str) -> None:
    assert asked(two, name) == [200] * 6
    assert embed(two, name) == embed(two, "one")
    assert embed(two, name)[0] == "one"


@pytest.mark.parametrize("name", ["two", "three", "One", "one,org/two", "org/two"])
def test_what_is_none_of_the_names_is_not_found(two: HttpServer, name: str) -> None:
    found = error(two.post("/v1/embeddings", {"input": "red", "model": name}), 404)
    assert found["code"] == "model_not_found"
    assert found["message"] == f"no model {name!r}; this server has 'one', 'org/two:latest'"


def test_ollama_knows_each_name_with_the_tag_latest_and_without(two: HttpServer) -> None:
    for name in ("one", "one:latest", "org/two", "org/two:latest"):
        answer = two.post("/api/embed", {"model": name, "input": "red"})
        assert answer.status_code == 200 and answer.json()["model"] == name
    assert two.post("/api/embed", {"model": "one:f16", "input": "red"}).status_code == 404


def test_each_name_takes_the_suffix_of_a_role(two: HttpServer) -> None:
    expected = two.post("/embed", {"inputs": "query: red"}).json()[0]
    for name in ("one-query", "org/two:latest-query", "tei-query"):
        assert embed(two, name) == ("one", expected)


def test_a_star_accepts_any_name_and_answers_the_first(any_name: HttpServer) -> None:
    for name in ("mine", "text-embedding-3-small", "org/other", "x:7b"):
        assert asked(any_name, name) == [200] * 6
        assert embed(any_name, name) == embed(any_name, "mine")
        assert embed(any_name, name)[0] == "mine"


def test_all_names_are_listed(server: HttpServer, two: HttpServer, any_name: HttpServer) -> None:
    def listed(server: HttpServer) -> list[str]:
        return [card["id"] for card in server.client.get("/v1/models").json()["data"]]

    assert listed(server) == [DEFAULT, ORIGIN]
    assert listed(two) == ["one", "org/two:latest"]
    assert listed(any_name) == ["mine"]


def test_the_list_of_infinity_has_what_its_client_reads(
    server: HttpServer, two: HttpServer
) -> None:
    """Its client refuses a model without stats, and every owner but itself."""
    found = server.client.get("/models").json()
    assert found["object"] == "list"
    assert [card["id"] for card in found["data"]] == [DEFAULT, ORIGIN]
    for card in found["data"]:
        assert card["stats"] == {"queued_tokens": 0} and card["capabilities"] == ["embed"]
        assert card["object"] == "model" and card["created"] > 1_700_000_000
        assert "owned_by" not in card
    listed = two.client.get("/models").json()["data"]
    assert [card["id"] for card in listed] == ["one", "org/two:latest"]


def test_a_model_is_described_under_the_name_that_was_asked(two: HttpServer) -> None:
    for name in ("one", "org/two:latest"):
        assert two.client.get(f"/v1/models/{name}").json()["id"] == name


@pytest.mark.parametrize("name", ["-query", "", "one-Query", "one-query-query"])
def test_what_only_resembles_a_role_is_another_model(name: str) -> None:
    with pytest.raises(UnknownModel):
        ServedNames(["one"]).role_of(name)


def test_a_name_that_ends_as_a_role_does_is_itself() -> None:
    names = ServedNames(["of-a-query"])
    assert names.role_of("of-a-query") is None
    assert names.role_of("of-a-query-query") == "query"
    assert ServedNames(["one"], any_name=True).role_of("other-passage") == "document"
