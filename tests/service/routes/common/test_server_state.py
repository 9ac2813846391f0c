"""Names of the served model on every route with a model field; the model of each task."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from embedwell.errors import BadRequest, UnknownModel
from embedwell.routes.common.server_state import (
    ModelChoice,
    ModelRegistry,
    ServedNames,
    ServedTasks,
)
from embedwell.settings.settings import Settings
from embedwell_models.hub.sources import DEFAULT
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE
from tests.conftest import Folder
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

ORIGIN = f"sentence-transformers/{DEFAULT}"
PLACEHOLDERS = ["tei", "text-embeddings-inference", "default/not-specified"]


@pytest.fixture(scope="module")
def two_names(tiny_bert: Folder) -> Iterator[HttpServer]:
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
    """Return the model of the response, and the vector."""
    response = server.post("/v1/embeddings", {"input": "red", "model": model})
    assert response.status_code == 200, response.text
    return response.json()["model"], response.json()["data"][0]["embedding"]


def statuses(server: HttpServer, model: str) -> list[int]:
    """Return the status of each route with a model name."""
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
def test_names_come_from_the_setting_or_the_model(
    fields: dict[str, Any], names: list[str], any_name: bool
) -> None:
    settings = Settings(**fields)
    assert (settings.names, settings.any_name, settings.name) == (names, any_name, names[0])


@pytest.mark.parametrize("setting", [",", "a,", "a,,b", " "])
def test_an_empty_name_among_several_is_refused(setting: str) -> None:
    with pytest.raises(ValueError, match="a name is empty"):
        Settings(served_name=setting)


@pytest.mark.parametrize("name", [DEFAULT, ORIGIN, *PLACEHOLDERS])
def test_the_bundled_model_has_its_names_and_placeholders(server: HttpServer, name: str) -> None:
    assert statuses(server, name) == [200] * 6
    assert embed(server, name) == embed(server, DEFAULT)


@pytest.mark.parametrize("name", ["one", "org/two:latest"])
def test_every_name_is_accepted_and_the_primary_returned(two_names: HttpServer, name: str) -> None:
    assert statuses(two_names, name) == [200] * 6
    assert embed(two_names, name) == embed(two_names, "one")
    assert embed(two_names, name)[0] == "one"


@pytest.mark.parametrize("name", ["two", "three", "One", "one,org/two", "org/two"])
def test_an_unknown_name_is_not_found(two_names: HttpServer, name: str) -> None:
    fault = error(two_names.post("/v1/embeddings", {"input": "red", "model": name}), 404)
    assert fault["code"] == "model_not_found"
    assert fault["message"] == f"no model {name!r}; this server has 'one', 'org/two:latest'"


def test_ollama_names_may_have_the_tag_latest(two_names: HttpServer) -> None:
    for name in ("one", "one:latest", "org/two", "org/two:latest"):
        response = two_names.post("/api/embed", {"model": name, "input": "red"})
        assert response.status_code == 200 and response.json()["model"] == name
    assert two_names.post("/api/embed", {"model": "one:f16", "input": "red"}).status_code == 404


def test_each_name_may_have_the_suffix_of_a_role(two_names: HttpServer) -> None:
    expected = two_names.post("/embed", {"inputs": "query: red"}).json()[0]
    for name in ("one-query", "org/two:latest-query", "tei-query"):
        assert embed(two_names, name) == ("one", expected)


def test_a_star_accepts_any_name_and_returns_the_primary(any_name: HttpServer) -> None:
    for name in ("mine", "text-embedding-3-small", "org/other", "x:7b"):
        assert statuses(any_name, name) == [200] * 6
        assert embed(any_name, name) == embed(any_name, "mine")
        assert embed(any_name, name)[0] == "mine"


def test_all_names_are_listed(
    server: HttpServer, two_names: HttpServer, any_name: HttpServer
) -> None:
    def names_listed(server: HttpServer) -> list[str]:
        return [card["id"] for card in server.client.get("/v1/models").json()["data"]]

    assert names_listed(server) == [DEFAULT, ORIGIN]
    assert names_listed(two_names) == ["one", "org/two:latest"]
    assert names_listed(any_name) == ["mine"]


def test_infinitys_list_has_the_fields_of_its_client(
    server: HttpServer, two_names: HttpServer
) -> None:
    """Its client refuses a model without stats, and every owner but itself."""
    content = server.client.get("/models").json()
    assert content["object"] == "list"
    assert [card["id"] for card in content["data"]] == [DEFAULT, ORIGIN]
    for card in content["data"]:
        assert card["stats"] == {"queued_tokens": 0} and card["capabilities"] == ["embed"]
        assert card["object"] == "model" and card["created"] > 1_700_000_000
        assert "owned_by" not in card
    models = two_names.client.get("/models").json()["data"]
    assert [card["id"] for card in models] == ["one", "org/two:latest"]


def test_a_model_is_described_under_the_requested_name(two_names: HttpServer) -> None:
    for name in ("one", "org/two:latest"):
        assert two_names.client.get(f"/v1/models/{name}").json()["id"] == name


@pytest.mark.parametrize("name", ["-query", "", "one-Query", "one-query-query"])
def test_a_name_that_resembles_a_role_suffix_is_unknown(name: str) -> None:
    with pytest.raises(UnknownModel):
        ServedNames(["one"]).find_with_role(name)


def test_a_served_name_may_end_with_a_role_suffix() -> None:
    names = ServedNames(["of-a-query"])
    assert names.find_with_role("of-a-query") == (0, None)
    assert names.find_with_role("of-a-query-query") == (0, "query")
    any_name = ServedNames(["one"], any_name=True)
    assert any_name.find_with_role("other-passage") == (None, "document")


CHOICE = ModelChoice(ServedNames(["one", "first"], ["org/two"]), ["1", "2"], default=1)


@pytest.mark.parametrize(
    ("name", "service"),
    [("one", "1"), ("first", "1"), ("org/two", "2"), (None, "2"), ("tei", "2")],
)
def test_a_name_chooses_the_service_of_its_model(name: str | None, service: str) -> None:
    assert CHOICE.choose(name) == service
    assert CHOICE.choose_with_role(name) == (service, None)


def test_a_suffix_and_a_tag_choose_the_service_too() -> None:
    assert CHOICE.choose_with_role("one-query") == ("1", "query")
    assert CHOICE.choose_with_role("org/two-passage") == ("2", "document")
    assert CHOICE.choose_tagged("one:latest") == "1"
    assert CHOICE.choose_tagged("tei:latest") == "2"


@pytest.mark.parametrize("name", ["two", "", "one:latest", "One"])
def test_the_error_of_an_unknown_name_lists_all(name: str) -> None:
    with pytest.raises(UnknownModel, match="this server has 'one', 'first', 'org/two'"):
        CHOICE.choose(name)


@dataclass(frozen=True)
class Model:
    """A model with two names, and the outputs of its texts."""

    name: str
    task_and_outputs: tuple[str, ...]
    adapter: None = None

    @property
    def settings(self) -> Any:
        return SimpleNamespace(names=[self.name, f"{self.name}-2"])


@pytest.mark.parametrize(
    ("offers", "default"),
    [((), "a"), ((DENSE,), "c"), ((DENSE, MULTI), "c"), ((MULTI, DENSE), "b"), ((SPARSE,), "a")],
)
def test_the_default_is_the_first_model_with_an_output(
    offers: tuple[str, ...], default: str
) -> None:
    models: Any = [Model("a", ("rerank",)), Model("b", (MULTI,)), Model("c", (DENSE, MULTI))]
    choice = ModelRegistry(models, any_name=True).choice(lambda model: model.name, *offers)
    assert choice.choose() == choice.choose("unknown") == default
    assert [choice.choose(name) for name in ("a", "b-2", "c")] == ["a", "b", "c"]


TASKS = ServedTasks(
    [("bert", None), ("jina:a", "a"), ("jina:b", "b"), ("other", "a"), ("other:b", "b")]
)


@pytest.mark.parametrize(
    ("model", "task", "chosen"),
    [(1, "a", 1), (1, "b", 2), (2, "a", 1), (3, "a", 3), (3, "b", 4), (0, "separation", 0)],
)
def test_a_task_chooses_among_the_models_of_one_name(model: int, task: str, chosen: int) -> None:
    assert TASKS.find(model, task) == chosen


def test_queries_and_documents_may_have_one_adapter() -> None:
    tasks = ServedTasks([("jina:retrieval", "retrieval"), ("jina:clustering", "clustering")])
    assert tasks.find(1, "retrieval.query") == tasks.find(1, "retrieval.passage") == 0
    with pytest.raises(BadRequest, match="no task 'separation'"):
        tasks.find(0, "separation")


def test_the_tasks_of_a_model_are_those_of_its_name() -> None:
    assert [TASKS.of(model) for model in range(3)] == [[], ["a", "b"], ["a", "b"]]


@pytest.mark.parametrize(
    ("model", "task", "listed"),
    [(1, "separation", "'a', 'b'"), (0, "a", "'retrieval.query', 'retrieval.passage'")],
)
def test_the_error_of_an_unknown_task_lists_those_there_are(
    model: int, task: str, listed: str
) -> None:
    with pytest.raises(BadRequest, match=f"no task '{task}'; .*{listed}") as raised:
        TASKS.find(model, task)
    assert (raised.value.code, raised.value.param) == ("unknown_task", "task")
