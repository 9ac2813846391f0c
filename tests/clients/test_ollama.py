"""Ollama's Python client with a real server."""

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import ollama
import pytest

from embedwell import __version__
from embedwell_models import Embedder
from embedwell_models.hub.sources import DEFAULT
from tests.clients.conftest import LONG_TEXTS, KeepBusy
from tests.service.server import Server

TEXTS = ["A first text.", "Ein zweiter Text."]
LONG = "beginning " + "word " * 600 + "ending"


def client_of(server: Server, key: str = "unused") -> ollama.Client:
    return ollama.Client(server.url, headers={"authorization": f"Bearer {key}"})


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[ollama.Client]:
    with client_of(server) as client:
        yield client


def error_of(client: ollama.Client, **fields: Any) -> tuple[int, str]:
    with pytest.raises(ollama.ResponseError) as error:
        client.embed(**{"model": DEFAULT, "input": TEXTS, **fields})
    return error.value.status_code, error.value.error


def test_a_response_has_unit_vectors_and_token_counts(
    client: ollama.Client, embedder: Embedder
) -> None:
    expected = embedder.embed(TEXTS)
    response = client.embed(DEFAULT, TEXTS)
    np.testing.assert_array_equal(np.array(response.embeddings, dtype=np.float32), expected)
    assert response.model == DEFAULT and response.prompt_eval_count == 6 + 8
    assert response.total_duration is not None and response.total_duration > 1000  # nanoseconds
    assert response.load_duration == 0
    (vector,) = client.embed(DEFAULT, TEXTS[0]).embeddings
    np.testing.assert_array_equal(np.array(vector, dtype=np.float32), expected[0])


def test_the_legacy_route_does_not_normalize_vectors(client: ollama.Client, server: Server) -> None:
    vector = client.embeddings(DEFAULT, TEXTS[0]).embedding
    (expected,) = server.post("/embed", {"inputs": TEXTS[0], "normalize": False}).json()
    assert vector == expected and abs(np.linalg.norm(vector) - 1) > 0.1


@pytest.mark.parametrize("model", [DEFAULT, f"{DEFAULT}:latest"])
def test_a_model_without_a_tag_has_the_tag_latest(
    client: ollama.Client, server_with_tag: Server, model: str
) -> None:
    response = client.embed(model, "x")
    assert response.embeddings == client.embed(DEFAULT, "x").embeddings
    assert response.model == model
    assert client.embeddings(model, "x").embedding
    with client_of(server_with_tag) as other:
        assert other.embed("own", "x").embeddings == other.embed("own:latest", "x").embeddings


@pytest.mark.parametrize("model", ["nomic-embed-text", f"{DEFAULT}:f16", ":latest"])
def test_another_model_is_not_found(client: ollama.Client, model: str) -> None:
    status, message = error_of(client, model=model)
    assert status == 404 and DEFAULT in message and f"model {model!r} not found" in message
    with pytest.raises(ollama.ResponseError, match="this server has") as error:
        client.embeddings(model, "x")
    assert error.value.status_code == 404


def test_a_long_text_is_truncated_at_its_end_unless_truncate_is_false(
    client: ollama.Client, server: Server
) -> None:
    expected = server.post("/embed", {"inputs": [LONG], "on_overflow": "end"}).json()
    assert client.embed(DEFAULT, LONG).embeddings == expected
    assert client.embed(DEFAULT, LONG, truncate=True).embeddings == expected
    status, message = error_of(client, input=["short", LONG], truncate=False)
    assert status == 400 and "604 tokens in input 1" in message


def test_the_legacy_route_truncates_by_the_servers_setting(
    client: ollama.Client, server_with_tag: Server
) -> None:
    assert client.embeddings(DEFAULT, LONG).embedding
    with client_of(server_with_tag) as tagged_client:
        assert tagged_client.embed("own", LONG).embeddings
        with pytest.raises(ollama.ResponseError, match="tokens in input 0;"):
            tagged_client.embeddings("own", LONG)


def test_dimensions_truncate_the_vector_to_unit_length(server_any_dimensions: Server) -> None:
    with client_of(server_any_dimensions) as client:
        (vector,) = client.embed(DEFAULT, "x", dimensions=32).embeddings
    assert len(vector) == 32 and abs(np.linalg.norm(vector) - 1) < 1e-6


@pytest.mark.parametrize("dimensions", [384, 385, 10_000, 0, -1])
def test_dimensions_out_of_range_give_the_full_vector(
    client: ollama.Client, dimensions: int
) -> None:
    full = client.embed(DEFAULT, "x").embeddings
    assert client.embed(DEFAULT, "x", dimensions=dimensions).embeddings == full


def test_num_ctx_truncates_a_text_at_its_end(client: ollama.Client, server: Server) -> None:
    words = "one two three four five six"
    truncated = client.embed(DEFAULT, [words, "x"], options={"num_ctx": 5})
    assert truncated.embeddings == client.embed(DEFAULT, ["one two three", "x"]).embeddings
    assert truncated.prompt_eval_count == 5 + 3
    assert (
        client.embed(DEFAULT, words, options={"num_ctx": 5.0}).embeddings
        == truncated.embeddings[:1]
    )
    legacy = client.embeddings(DEFAULT, words, options={"num_ctx": 5}).embedding
    assert legacy == client.embeddings(DEFAULT, "one two three").embedding
    status, message = error_of(client, input=words, truncate=False, options={"num_ctx": 5})
    assert status == 400 and "length is 5 tokens" in message and "8 tokens" in message


@pytest.mark.parametrize("number", ["1e999", "1e30", "-1e999", "-7", "300.5"])
def test_num_ctx_may_be_any_number(server: Server, number: str) -> None:
    body = f'{{"model": "{DEFAULT}", "input": "x", "options": {{"num_ctx": {number}}}}}'
    response = server.client.post("/api/embed", content=body)
    assert response.status_code == 200, response.text


def test_a_request_of_anythingllm_is_answered(server: Server) -> None:
    """Its num_ctx is the length of a chunk, which may exceed the limit of the model."""
    body = {"model": f"{DEFAULT}:latest", "input": [LONG], "options": {"num_ctx": 1000}}
    response = server.post("/api/embed", {**body, "keep_alive": 300})
    assert response.status_code == 200 and response.json()["prompt_eval_count"] == 256


def test_the_model_is_listed_under_each_of_its_names(client: ollama.Client, server: Server) -> None:
    models = client.list().models
    names = [f"{DEFAULT}:latest", f"sentence-transformers/{DEFAULT}:latest"]
    assert [model.model for model in models] == names
    for model in models:
        assert model.size == 90_868_376 and model.modified_at is not None
        assert model.digest == server.client.get("/info").json()["engine"]["fingerprint"]
        assert model.details is not None and model.details.format == "safetensors"
        assert (model.details.family, model.details.families) == ("bert", ["bert"])
        assert model.details.parameter_size == "22.7M"
        assert model.details.quantization_level == "F32"
    with_tag = {model["name"] for model in server.client.get("/api/tags").json()["models"]}
    assert with_tag == set(names)


def test_a_served_name_with_a_tag_gets_no_other(server_with_tag: Server) -> None:
    with client_of(server_with_tag) as client:
        assert [model.model for model in client.list().models] == ["own:latest"]


@pytest.mark.parametrize("name", [DEFAULT, f"sentence-transformers/{DEFAULT}:latest"])
def test_show_describes_the_model(client: ollama.Client, name: str) -> None:
    description = client.show(name)
    assert description.capabilities == ["embedding"]
    assert description.details == client.list().models[0].details
    assert description.modelinfo == {
        "general.architecture": "bert",
        "general.parameter_count": 22_713_216,
        "bert.context_length": 256,
        "bert.embedding_length": 384,
        "bert.block_count": 6,
    }
    assert description.modified_at == client.list().models[0].modified_at


@pytest.mark.parametrize(
    "body", [{"name": DEFAULT}, {"model": DEFAULT, "verbose": True, "system": "", "options": None}]
)
def test_show_accepts_the_fields_of_older_clients(server: Server, body: dict[str, Any]) -> None:
    response = server.post("/api/show", body)
    assert response.status_code == 200 and response.json()["details"]["family"] == "bert"


def test_show_refuses_other_models(client: ollama.Client, server: Server) -> None:
    with pytest.raises(ollama.ResponseError, match="this server has") as error:
        client.show("nomic-embed-text")
    assert error.value.status_code == 404
    response = server.post("/api/show", {})
    assert (
        response.status_code == 400
        and response.json()["error"] == "the field model is missing: give a model's name"
    )


def test_ps_lists_the_model_as_loaded_for_ever(client: ollama.Client) -> None:
    (loaded,) = client.ps().models
    assert loaded.model == loaded.name == f"{DEFAULT}:latest"
    assert loaded.expires_at is not None and loaded.expires_at.year == 9999
    assert (loaded.size, loaded.size_vram, loaded.context_length) == (90_868_376, 0, 256)
    assert loaded.details == client.list().models[0].details


def test_the_version_is_that_of_the_server(server: Server) -> None:
    assert server.client.get("/api/version").json() == {"version": __version__}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/api/generate", 404),
        ("DELETE", "/api/delete", 404),
        ("GET", "/api/nothing", 404),
        ("GET", "/api/embed", 405),
        ("POST", "/api/tags", 405),
    ],
)
def test_unsupported_routes_have_errors_in_ollamas_format(
    server: Server, method: str, path: str, status: int
) -> None:
    response = server.client.request(method, path, json={"model": DEFAULT})
    assert response.status_code == status and isinstance(response.json()["error"], str)


@pytest.mark.parametrize("path", ["/api/tags", "/api/ps", "/api/show"])
def test_routes_about_the_model_need_the_key(strict_server: Server, path: str) -> None:
    method = "POST" if path == "/api/show" else "GET"
    response = strict_server.client.request(method, path, headers={"authorization": "Bearer wrong"})
    assert response.status_code == 401 and isinstance(response.json()["error"], str)


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
def test_options_without_effect_on_vectors_are_accepted(client: ollama.Client, fields: Any) -> None:
    plain = client.embed(DEFAULT, TEXTS).embeddings
    assert client.embed(DEFAULT, TEXTS, **fields).embeddings == plain
    plain_prompt = client.embeddings(DEFAULT, "x").embedding
    assert client.embeddings(DEFAULT, "x", **fields).embedding == plain_prompt


@pytest.mark.parametrize(
    ("fields", "message_part"),
    [
        ({"options": {"num_ctx": 2}}, "options.num_ctx is 2, but must be above 2"),
        ({"options": {"num_ctx": True}}, "options.num_ctx must be a number of tokens"),
        ({"options": {"num_ctx": "256"}}, "options.num_ctx must be a number of tokens"),
        ({"input": []}, "give at least one text"),
        ({"dimensions": 32}, "vectors with 32 dimensions are not offered"),
    ],
)
def test_unsupported_values_are_refused_by_name(
    client: ollama.Client, fields: Any, message_part: str
) -> None:
    status, message = error_of(client, **fields)
    assert status == 400 and message_part in message


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
def test_an_error_is_a_text_with_the_servers_own_fields(
    server: Server, fields: dict[str, Any], code: str, param: str
) -> None:
    response = server.post("/api/embed", {"model": DEFAULT, "input": "x", **fields})
    error = response.json()
    assert response.status_code == 400 and isinstance(error["error"], str)
    assert (error["code"], error["param"], error["index"] or 0) == (code, param, 0)
    assert error["request_id"] == response.headers["x-request-id"]


def test_the_default_prompt_of_the_model_is_used(server_with_tag: Server) -> None:
    with client_of(server_with_tag) as client:
        vectors = client.embed("own", "red").embeddings
    assert vectors == server_with_tag.post("/embed", {"inputs": "query: red", "prompt": ""}).json()


def test_error_statuses_raise_the_clients_exceptions(
    strict_server: Server, keep_busy: KeepBusy
) -> None:
    with client_of(strict_server, "wrong") as client_with_wrong_key:
        assert error_of(client_with_wrong_key)[0] == 401
    with client_of(strict_server, "secret") as client_with_key, keep_busy():
        assert error_of(client_with_key, input=LONG_TEXTS)[0] == 429


def test_the_asynchronous_client_gets_the_same_vectors(
    server: Server, client: ollama.Client
) -> None:
    async def embed_async() -> Any:
        async with ollama.AsyncClient(server.url) as async_client:
            return await async_client.embed(DEFAULT, TEXTS)

    assert asyncio.run(embed_async()).embeddings == client.embed(DEFAULT, TEXTS).embeddings


@pytest.mark.parametrize("stream", [False, True])
def test_a_served_model_needs_no_pull(client: ollama.Client, stream: Any) -> None:
    pulled = client.pull(DEFAULT, stream=stream)
    assert [step.status for step in pulled] if stream else [pulled.status] == ["success"]
    with pytest.raises(ollama.ResponseError, match="model 'other' not found") as error:
        list(client.pull("other", stream=True))
    assert error.value.status_code == 404


def test_a_request_may_have_thousands_of_texts(client: ollama.Client, server: Server) -> None:
    texts = [f"number {n}" for n in range(3000)]
    embeddings = client.embed(DEFAULT, texts).embeddings
    assert len(embeddings) == 3000
    assert [embeddings[2999]] == server.post("/embed", {"inputs": texts[2999:]}).json()
    assert server.post("/embed", {"inputs": texts}).json()["code"] == "too_many_texts"
    status, message = error_of(client, input=["a long text " * 80] * 3000)
    assert status == 413 and "tokens" in message


def test_a_request_may_say_that_it_wants_no_stream(server: Server) -> None:
    body = {"model": DEFAULT, "input": TEXTS}
    unstreamed = server.post("/api/embed", {**body, "stream": False}).json()
    assert unstreamed["embeddings"] == server.post("/api/embed", body).json()["embeddings"]
    assert server.post("/api/embeddings", {**body, "input": None, "prompt": "x"}).is_success
