"""A server of Jina v3 with an engine for each task, which the field `task` of a request chooses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_client import Client
from embedwell_models import Embedder
from embedwell_models.vectors import truncate_and_normalize
from tests.conftest import Folder
from tests.models.jina_adapters import PROMPTS, TASKS, write_sentence_model
from tests.models.model_files.chains import save, two_encoders
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.server import HttpServer, Server

TEXT = "the license of the work"
BODIES: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"input": TEXT},
    "/embed": {"inputs": TEXT},
    "/models/jina": {"inputs": TEXT},
    "/embed_all": {"inputs": TEXT},
    "/tokens": {"inputs": TEXT},
    "/tokenize": {"inputs": TEXT},
    "/similarity": {"a": TEXT, "b": "a copyright"},
    "/neighbors": {"inputs": TEXT, "candidates": ["a copyright", "you"]},
    "/doesnt_match": {"inputs": [TEXT, "a copyright", "you"]},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sentence_model(tmp_path_factory.mktemp("jina"))


@pytest.fixture(scope="module")
def jina(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of all tasks, whose engines are started on demand."""
    log = tmp_path_factory.mktemp("tasks") / "log"
    settings: dict[str, Any] = {
        "adapter": "all",
        "keep": "on_demand",
        "served_name": "jina,org/jina",
    }
    with Server(log, model=folder, **settings) as server:
        yield server


def described(server: HttpServer) -> dict[str, tuple[str, str]]:
    """The adapter and the state of each model, by its name."""
    listed = server.client.get("/v1/models").json()["data"]
    return {model["id"]: (model["adapter"], model["state"]) for model in listed}


def test_an_engine_is_started_with_the_first_request_for_its_task(jina: Server) -> None:
    names = [f"{name}:{task}" for task in TASKS for name in ("jina", "org/jina")]
    expected = {name: (name.partition(":")[2], "unloaded") for name in names}
    expected |= dict.fromkeys(("jina", "org/jina"), ("retrieval.query", "unloaded"))
    assert described(jina) == expected
    jina.post("/embed", {"inputs": TEXT, "task": "text-matching"})
    loaded = {name for name, (_, state) in described(jina).items() if state == "loaded"}
    assert loaded == {"jina:text-matching", "org/jina:text-matching"}


@pytest.mark.parametrize("task", TASKS)
def test_the_vectors_are_those_of_the_task_and_its_prompt(
    jina: Server, folder: Path, task: str
) -> None:
    embedder = Embedder.load(folder, adapter=task, device="cpu", dtype="float32")
    vector = embedder.embed([PROMPTS.get(task, "") + TEXT])
    [expected] = truncate_and_normalize(vector, None, True)
    response = jina.post("/v1/embeddings", {"input": TEXT, "model": "org/jina", "task": task})
    assert response.status_code == 200, response.text
    assert response.json()["model"] == f"jina:{task}"
    actual = response.json()["data"][0]["embedding"]
    np.testing.assert_allclose(actual, expected, atol=1e-5)
    [other] = vectors(jina.post("/embed", {"inputs": TEXT, "task": task}))
    np.testing.assert_array_equal(other, np.float32(actual))
    with Client(jina.url) as client:
        np.testing.assert_array_equal(client.embed([TEXT], task=task)[0], other)


@pytest.mark.parametrize("path", BODIES)
def test_every_route_takes_a_task(jina: Server, path: str) -> None:
    contents = []
    for task in TASKS:
        prompt = {} if path == "/v1/embeddings" else {"prompt_name": task}
        response = jina.post(path, {**BODIES[path], "task": task})
        assert response.status_code == 200, response.text
        name = f"jina:{task}"
        named_path, named = (path.replace("jina", name), {**BODIES[path], "model": name})
        if prompt:
            assert response.json() == jina.post(named_path, {**named, **prompt}).json()
        contents.append(response.text)
    assert len({*contents}) > 1, "the tasks differ"
    fault = error(jina.post(path, {**BODIES[path], "task": "code"}), 400)
    assert (fault["code"], fault["param"]) == ("unknown_task", "task")
    assert "'retrieval.query', 'retrieval.passage', 'text-matching'" in fault["message"]


def test_parameters_of_a_similarity_may_have_the_task(jina: Server) -> None:
    inputs = {"source_sentence": TEXT, "sentences": ["a copyright"]}
    for task in TASKS:
        inner = jina.post("/similarity", {"inputs": inputs, "parameters": {"task": task}})
        outer = jina.post("/similarity", {"inputs": inputs, "task": task})
        assert inner.status_code == 200 and inner.json() == outer.json()


def test_without_a_task_the_first_one_computes_without_a_prompt(jina: Server) -> None:
    body = {"inputs": TEXT, "details": True}
    content = jina.post("/embed", body).json()
    assert content["model"] == "jina:retrieval.query"
    assert content["prompt"]["text"] == ""
    named = jina.post("/embed", {**body, "task": "retrieval.query", "prompt": ""}).json()
    assert named["embeddings"] == content["embeddings"]


def test_a_prompt_of_the_request_takes_the_place_of_the_tasks(jina: Server) -> None:
    body = {"inputs": TEXT, "details": True, "task": "retrieval.query"}
    assert jina.post("/embed", body).json()["prompt"]["name"] == "retrieval.query"
    own = jina.post("/embed", {**body, "prompt_name": "retrieval.passage"}).json()
    assert own["prompt"]["name"] == "retrieval.passage"
    assert jina.post("/embed", {**body, "input_type": "query"}).status_code == 200
    fault = error(jina.post("/embed", {**body, "input_type": "document"}), 400)
    assert fault["param"] == "task"


def test_apis_without_the_field_name_the_task_with_the_model(jina: Server) -> None:
    name = "jina:text-matching"
    [expected] = jina.post("/embed", {"inputs": TEXT, "task": "text-matching"}).json()
    ollama = jina.post("/api/embed", {"model": name, "input": TEXT}).json()
    cohere = {"model": name, "input_type": "search_query", "texts": [TEXT]}
    assert ollama["embeddings"] == [expected]
    assert jina.post("/v2/embed", cohere).json()["embeddings"]["float"] == [expected]


def test_info_tells_the_adapter_and_those_that_are_served(jina: Server) -> None:
    info = jina.client.get("/info").json()
    assert (info["model"], info["adapter"]) == ("jina:retrieval.query", "retrieval.query")
    assert info["adapters"] == TASKS
    info = jina.client.get("/info", params={"model": "jina:text-matching"}).json()
    assert (info["adapter"], info["adapters"]) == ("text-matching", TASKS)


def test_a_model_without_adapters_takes_the_tasks_of_jina_alone(tiny_bert: Folder) -> None:
    card = {"prompts": {"query": "the ", "classification": "of "}}
    with local_server(tiny_bert({"config_sentence_transformers.json": card})) as server:
        for task, prompt in (("retrieval.query", "the "), ("text-matching", "")):
            content = server.post("/embed", {"inputs": "work", "task": task, "details": True})
            assert content.json()["prompt"]["text"] == prompt
        fault = error(server.post("/tokens", {"inputs": "work", "task": "code.query"}), 400)
        assert (fault["code"], fault["param"]) == ("unknown_task", "task")
        assert "'retrieval.query', 'retrieval.passage', 'text-matching'" in fault["message"]
        info = server.client.get("/info").json()
        assert (info["adapter"], info["adapters"]) == (None, [])


@pytest.fixture(scope="module")
def routed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with an encoder for queries and another one for documents."""
    folder = tmp_path_factory.mktemp("routed")
    save(folder, two_encoders)
    return folder / "model"


@pytest.fixture(scope="module")
def routed(routed_folder: Path) -> Iterator[Server]:
    with Server(routed_folder.parent / "log", model=routed_folder, adapter="all") as server:
        yield server


def test_queries_and_documents_may_have_encoders_of_their_own(
    routed: Server, routed_folder: Path
) -> None:
    assert described(routed).keys() == {"model", "model:retrieval.passage", "model:retrieval.query"}
    for task, role in (("retrieval.query", "query"), ("retrieval.passage", "document")):
        embedder = Embedder.load(routed_folder, adapter=task, device="cpu", dtype="float32")
        [expected] = embedder.embed([TEXT])
        [actual] = vectors(routed.post("/embed", {"inputs": TEXT, "task": task}))
        np.testing.assert_allclose(actual, expected, atol=1e-5)
        named = {"inputs": TEXT, "model": f"model:{task}", "input_type": role}
        [other] = vectors(routed.post("/embed", named))
        np.testing.assert_array_equal(other, actual)
    [first] = vectors(routed.post("/embed", {"inputs": TEXT}))
    np.testing.assert_array_equal(first, actual)


def test_a_role_of_other_modules_is_refused(routed: Server) -> None:
    fault = error(routed.post("/embed", {"inputs": TEXT, "input_type": "query"}), 400)
    assert fault["param"] == "input_type" and "task 'retrieval.query'" in fault["message"]
    assert routed.post("/embed", {"inputs": TEXT, "input_type": "document"}).status_code == 200


def test_a_rerank_compares_the_query_s_vector_with_the_documents(routed: Server) -> None:
    tasks = [("retrieval.query", "a copyright"), ("retrieval.passage", TEXT)]
    query, document = (
        vectors(routed.post("/embed", {"inputs": text, "task": task}))[0] for task, text in tasks
    )
    [score] = routed.post("/rerank", {"query": "a copyright", "texts": [TEXT]}).json()
    assert score["score"] == pytest.approx(float(query @ document), abs=1e-5)
