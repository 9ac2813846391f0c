"""Ollama's own client against a running server."""

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import ollama
import pytest

from models import Embedder
from models.sources import DEFAULT
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
    assert status == 400 and "input 1 has 604 tokens" in message


def test_the_legacy_route_cuts_where_the_server_does(client: ollama.Client, tagged: Server) -> None:
    assert client.embeddings(DEFAULT, LONG).embedding
    with connect(tagged) as strict:
        assert strict.embed("own", LONG).embeddings
        with pytest.raises(ollama.ResponseError, match="input 0 has"):
            strict.embeddings("own", LONG)


def test_dimensions_shorten_the_vector_to_unit_length(cutting: Server) -> None:
    with connect(cutting) as client:
        (found,) = client.embed(DEFAULT, "x", dimensions=32).embeddings
    assert len(found) == 32 and abs(np.linalg.norm(found) - 1) < 1e-6


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
        ({"options": {"num_ctx": 255}}, "options.num_ctx is 255: the model reads 256 tokens"),
        ({"options": {"num_ctx": True}}, "options.num_ctx is True"),
        ({"options": {"num_ctx": "256"}}, "options.num_ctx is '256'"),
        ({"options": {"temprature": 1}}, "unknown field 'options.temprature'"),
        ({"input": []}, "give at least one text"),
        ({"dimensions": 385}, "dimensions is 385"),
        ({"dimensions": 32}, "vectors of 32 dimensions are not offered"),
        ({"dimensions": 0}, "dimensions: Input should be greater than 0"),
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
        ({"options": {"top": 1}}, "unknown_field", "options.top"),
        ({"options": {"num_ctx": 1}}, "not_offered", "options.num_ctx"),
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
