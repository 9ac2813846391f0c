"""Ollama's own client against a running server."""

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import ollama
import pytest

from models import Embedder
from models.hub.sources import DEFAULT
from service import __version__
from tests.clients.conftest import MANY, Busy
from tests.service.server import Server

TEXTS = ["A first text.", "Ein zweiter Text."]
LONG = "beginning " + "word " * 600 + "ending"


def connect(server: Server, key: str = "unused") -> ollama.Client:
    return ollama.Client(server.url, headers={"authorization": f"Bearer {key}"})


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[ollama.Client]:
    with connect(server) as found:
        yield found


def refused(client: ollama.Client, **fields: Any) -> tuple[int, str]:
    with pytest.raises(ollama.ResponseError) as error:
        client.embed(**{"model": DEFAULT, "input": TEXTS, **fields})
    return error.value.status_code, error.value.error


def test_a_text_and_texts_get_vectors_of_unit_length_and_their_tokens(
    client: ollama.Client, embedder: Embedder
) -> None:
    expected = embedder.embed(TEXTS)
    answer = client.embed(DEFAULT, TEXTS)
    np.testing.assert_array_equal(np.array(answer.embeddings, dtype=np.float32), expected)
    assert answer.model == DEFAULT and answer.prompt_eval_count == 6 + 8
    assert answer.total_duration is not None and answer.total_duration > 1000  # nanoseconds
    assert answer.load_duration == 0
    (one,) = client.embed(DEFAULT, TEXTS[0]).embeddings
    np.testing.assert_array_equal(np.array(one, dtype=np.float32), expected[0])


def test_the_legacy_route_keeps_the_length_of_the_pooled_vector(
    client: ollama.Client, server: Server
) -> None:
    found = client.embeddings(DEFAULT, TEXTS[0]).embedding
    (ours,) = server.post("/embed", {"inputs": TEXTS[0], "normalize": False}).json()
    assert found == ours and abs(np.linalg.norm(found) - 1) > 0.1


@pytest.mark.parametrize("model", [DEFAULT, f"{DEFAULT}:latest"])
def test_a_model_without_a_tag_is_the_latest(
    client: ollama.Client, tagged: Server, model: str
) -> None:
    answer = client.embed(model, "x")
    assert answer.embeddings == client.embed(DEFAULT, "x").embeddings
    assert answer.model == model
    assert client.embeddings(model, "x").embedding
    with connect(tagged) as other:
        assert other.embed("own", "x").embeddings == other.embed("own:latest", "x").embeddings


@pytest.mark.parametrize("model", ["nomic-embed-text", f"{DEFAULT}:f16", ":latest"])
def test_another_model_is_not_found(client: ollama.Client, model: str) -> None:
    status, message = refused(client, model=model)
    assert status == 404 and DEFAULT in message
    with pytest.raises(ollama.ResponseError, match="this server has") as error:
        client.embeddings(model, "x")
    assert error.value.status_code == 404


def test_a_long_text_is_cut_at_its_end_unless_truncate_is_false(
    client: ollama.Client, server: Server
) -> None:
    expected = server.post("/embed", {"inputs": [LONG], "on_overflow": "end"}).json()
    assert client.embed(DEFAULT, LONG).embeddings == expected
    assert client.embed(DEFAULT, LONG, truncate=True).embeddings == expected
    status, message = refused(client, input=["short", LONG], truncate=False)
    assert status == 400 and "604 tokens in input 1" in message


def test_the_legacy_route_cuts_where_the_server_does(client: ollama.Client, tagged: Server) -> None:
    assert client.embeddings(DEFAULT, LONG).embedding
    with connect(tagged) as strict:
        assert strict.embed("own", LONG).embeddings
        with pytest.raises(ollama.ResponseError, match="tokens in input 0;"):
            strict.embeddings("own", LONG)


def test_dimensions_shorten_the_vector_to_unit_length(cutting: Server) -> None:
    with connect(cutting) as client:
        (found,) = client.embed(DEFAULT, "x", dimensions=32).embeddings
    assert len(found) == 32 and abs(np.linalg.norm(found) - 1) < 1e-6


@pytest.mark.parametrize("dimensions", [384, 385, 10_000, 0, -1])
def test_dimensions_that_shorten_nothing_are_the_full_length(
    client: ollama.Client, dimensions: int
) -> None:
    whole = client.embed(DEFAULT, "x").embeddings
    assert client.embed(DEFAULT, "x", dimensions=dimensions).embeddings == whole


def test_num_ctx_cuts_a_text_at_its_end(client: ollama.Client, server: Server) -> None:
    words = "one two three four five six"
    cut = client.embed(DEFAULT, [words, "x"], options={"num_ctx": 5})
    assert cut.embeddings == client.embed(DEFAULT, ["one two three", "x"]).embeddings
    assert cut.prompt_eval_count == 5 + 3
    assert client.embed(DEFAULT, words, options={"num_ctx": 5.0}).embeddings == cut.embeddings[:1]
    older = client.embeddings(DEFAULT, words, options={"num_ctx": 5}).embedding
    assert older == client.embeddings(DEFAULT, "one two three").embedding
    status, message = refused(client, input=words, truncate=False, options={"num_ctx": 5})
    assert status == 400 and "length is 5 tokens" in message and "8 tokens" in message


@pytest.mark.parametrize("number", ["1e999", "1e30", "-1e999", "-7", "300.5"])
def test_num_ctx_may_be_any_number(server: Server, number: str) -> None:
    body = f'{{"model": "{DEFAULT}", "input": "x", "options": {{"num_ctx": {number}}}}}'
    answer = server.client.post("/api/embed", content=body)
    assert answer.status_code == 200, answer.text


def test_what_anythingllm_sends_is_answered(server: Server) -> None:
    """Its num_ctx is the length of a chunk, whatever the model reads."""
    body = {"model": f"{DEFAULT}:latest", "input": [LONG], "options": {"num_ctx": 1000}}
    answer = server.post("/api/embed", {**body, "keep_alive": 300})
    assert answer.status_code == 200 and answer.json()["prompt_eval_count"] == 256


def test_the_model_is_listed_under_each_of_its_names(client: ollama.Client, server: Server) -> None:
    listed = client.list().models
    names = [f"{DEFAULT}:latest", f"sentence-transformers/{DEFAULT}:latest"]
    assert [model.model for model in listed] == names
    for model in listed:
        assert model.size == 90_868_376 and model.modified_at is not None
        assert model.digest == server.client.get("/info").json()["engine"]["fingerprint"]
        assert model.details is not None and model.details.format == "safetensors"
        assert (model.details.family, model.details.families) == ("bert", ["bert"])
        assert model.details.parameter_size == "22.7M"
        assert model.details.quantization_level == "F32"
    with_tag = {model["name"] for model in server.client.get("/api/tags").json()["models"]}
    assert with_tag == set(names)


def test_a_name_with_a_tag_keeps_it(tagged: Server) -> None:
    with connect(tagged) as client:
        assert [model.model for model in client.list().models] == ["own:latest"]


@pytest.mark.parametrize("name", [DEFAULT, f"sentence-transformers/{DEFAULT}:latest"])
def test_the_model_is_described(client: ollama.Client, name: str) -> None:
    shown = client.show(name)
    assert shown.capabilities == ["embedding"]
    assert shown.details == client.list().models[0].details
    assert shown.modelinfo == {
        "general.architecture": "bert",
        "general.parameter_count": 22_713_216,
        "bert.context_length": 256,
        "bert.embedding_length": 384,
        "bert.block_count": 6,
    }
    assert shown.modified_at == client.list().models[0].modified_at


@pytest.mark.parametrize(
    "body", [{"name": DEFAULT}, {"model": DEFAULT, "verbose": True, "system": "", "options": None}]
)
def test_the_model_is_described_to_older_clients(server: Server, body: dict[str, Any]) -> None:
    answer = server.post("/api/show", body)
    assert answer.status_code == 200 and answer.json()["details"]["family"] == "bert"


def test_no_other_model_is_described(client: ollama.Client, server: Server) -> None:
    with pytest.raises(ollama.ResponseError, match="this server has") as error:
        client.show("nomic-embed-text")
    assert error.value.status_code == 404
    answer = server.post("/api/show", {})
    assert answer.status_code == 400 and answer.json()["error"] == "give a model"


def test_the_model_is_always_loaded(client: ollama.Client) -> None:
    (loaded,) = client.ps().models
    assert loaded.model == loaded.name == f"{DEFAULT}:latest"
    assert loaded.expires_at is not None and loaded.expires_at.year == 9999
    assert (loaded.size, loaded.size_vram, loaded.context_length) == (90_868_376, 0, 256)
    assert loaded.details == client.list().models[0].details


def test_the_version_is_the_servers(server: Server) -> None:
    assert server.client.get("/api/version").json() == {"version": __version__}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/api/pull", 404),
        ("POST", "/api/generate", 404),
        ("DELETE", "/api/delete", 404),
        ("GET", "/api/nothing", 404),
        ("GET", "/api/embed", 405),
        ("POST", "/api/tags", 405),
    ],
)
def test_what_is_not_there_is_told_in_ollamas_shape(
    server: Server, method: str, path: str, status: int
) -> None:
    answer = server.client.request(method, path, json={"model": DEFAULT})
    assert answer.status_code == status and isinstance(answer.json()["error"], str)


@pytest.mark.parametrize("path", ["/api/tags", "/api/ps", "/api/show"])
def test_without_the_key_nothing_is_told_of_the_model(guarded: Server, path: str) -> None:
    method = "POST" if path == "/api/show" else "GET"
    answer = guarded.client.request(method, path, headers={"authorization": "Bearer wrong"})
    assert answer.status_code == 401 and isinstance(answer.json()["error"], str)


@pytest.mark.parametrize(
    "fields",
    [
        {"keep_alive": "5m"},
        {"keep_alive": -1},
        {"keep_alive": 0.5},
        {"options": {}},
        {"options": ollama.Options(num_thread=1, seed=7, stop=["."])},
        {"options": {"num_ctx": 256, "temperature": 0.1, "top_p": None, "use_mmap": True}},
        {"options": {"num_ctx": None}},
        {"options": {"num_ctx": 8192}},
        {"options": {"num_ctx": 0, "num_batch": "all", "temprature": 1}},
    ],
)
def test_what_changes_no_vector_may_be_sent(client: ollama.Client, fields: Any) -> None:
    plain = client.embed(DEFAULT, TEXTS).embeddings
    assert client.embed(DEFAULT, TEXTS, **fields).embeddings == plain
    plain_prompt = client.embeddings(DEFAULT, "x").embedding
    assert client.embeddings(DEFAULT, "x", **fields).embedding == plain_prompt


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"options": {"num_ctx": 2}}, "options.num_ctx is 2, and the model puts 2 special tokens"),
        ({"options": {"num_ctx": True}}, "options.num_ctx must be a number of tokens"),
        ({"options": {"num_ctx": "256"}}, "options.num_ctx must be a number of tokens"),
        ({"input": []}, "give at least one text"),
        ({"dimensions": 32}, "vectors of 32 dimensions are not offered"),
    ],
)
def test_what_is_not_offered_is_refused_by_name(
    client: ollama.Client, fields: Any, named: str
) -> None:
    status, message = refused(client, **fields)
    assert status == 400 and named in message


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"input": [[101, 102]]}, "invalid_request", "input"),
        ({"input": None}, "invalid_request", "input"),
        ({"prompt": "x"}, "unknown_field", "prompt"),
        ({"keep_alive": True}, "invalid_request", "keep_alive"),
        ({"options": {"num_ctx": 1}}, "invalid_request", "options.num_ctx"),
        ({"options": []}, "invalid_request", "options"),
    ],
)
def test_an_error_is_a_message_with_ours_beside_it(
    server: Server, fields: dict[str, Any], code: str, param: str
) -> None:
    answer = server.post("/api/embed", {"model": DEFAULT, "input": "x", **fields})
    told = answer.json()
    assert answer.status_code == 400 and isinstance(told["error"], str)
    assert (told["code"], told["param"], told["index"] or 0) == (code, param, 0)
    assert told["request_id"] == answer.headers["x-request-id"]


def test_the_default_prompt_of_a_model_is_taken(tagged: Server) -> None:
    with connect(tagged) as client:
        found = client.embed("own", "red").embeddings
    assert found == tagged.post("/embed", {"inputs": "query: red", "prompt": ""}).json()


def test_every_status_has_its_exception(guarded: Server, busy: Busy) -> None:
    with connect(guarded, "wrong") as stranger:
        assert refused(stranger)[0] == 401
    with connect(guarded, "secret") as friend, busy():
        assert refused(friend, input=MANY)[0] == 429


def test_the_asynchronous_client_gets_the_same(server: Server, client: ollama.Client) -> None:
    async def ask() -> Any:
        async with ollama.AsyncClient(server.url) as asynchronous:
            return await asynchronous.embed(DEFAULT, TEXTS)

    assert asyncio.run(ask()).embeddings == client.embed(DEFAULT, TEXTS).embeddings
