"""Cohere's own client against a running server."""

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import cohere
import numpy as np
import pytest
from cohere.core.api_error import ApiError

from models import Embedder
from models.hub.sources import DEFAULT
from models.vectors import quantize
from service.api.cohere import CohereRequest
from service.api.cohere_v1 import CohereV1Request
from tests.clients.conftest import MANY, Busy
from tests.service.server import Server

TEXTS = ["A first text.", "Ein zweiter Text."]
QUERY: dict[str, Any] = {"model": DEFAULT, "input_type": "search_query"}


def connect(server: Server, key: str = "unused") -> cohere.ClientV2:
    return cohere.ClientV2(key, base_url=server.url, max_retries=0)


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[cohere.ClientV2]:
    with connect(server) as found:
        yield found


def refused(client: cohere.ClientV2, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as error:
        client.embed(**{**QUERY, "texts": TEXTS, **fields})
    return error.value


def test_floats_come_with_the_texts_and_the_tokens(
    client: cohere.ClientV2, embedder: Embedder
) -> None:
    answer = client.embed(texts=TEXTS, **QUERY)
    assert answer.embeddings.float_ is not None and answer.meta is not None
    found = np.array(answer.embeddings.float_, dtype=np.float32)
    np.testing.assert_array_equal(found, embedder.embed(TEXTS))
    assert answer.embeddings.int8 is None
    assert answer.texts == TEXTS and answer.response_type == "embeddings_by_type" and answer.id
    assert answer.meta.billed_units is not None and answer.meta.api_version is not None
    assert answer.meta.billed_units.input_tokens == 6 + 8
    assert answer.meta.api_version.version == "2" and answer.meta.warnings is None


def test_several_types_come_in_one_answer(client: cohere.ClientV2, embedder: Embedder) -> None:
    types = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
    found = client.embed(texts=TEXTS, embedding_types=types, **QUERY).embeddings
    exact = embedder.embed(TEXTS)
    np.testing.assert_array_equal(np.array(found.float_, dtype=np.float32), exact)
    for kind in ("int8", "uint8", "binary", "ubinary"):
        assert getattr(found, kind) == quantize(exact, kind).tolist(), kind
    assert found.base64 is not None
    decoded = [np.frombuffer(base64.b64decode(row), dtype="<f4") for row in found.base64]
    np.testing.assert_array_equal(np.stack(decoded), exact)


def test_the_output_dimension_shortens_to_unit_length(cutting: Server) -> None:
    with connect(cutting) as client:
        (found,) = client.embed(texts=["x"], output_dimension=32, **QUERY).embeddings.float_ or []
    assert len(found) == 32 and abs(np.linalg.norm(found) - 1) < 1e-6


def test_inputs_are_texts_in_another_shape(client: cohere.ClientV2) -> None:
    inputs: list[Any] = [{"content": [{"type": "text", "text": text}]} for text in TEXTS]
    found = client.embed(inputs=inputs, **QUERY)
    assert found.texts == TEXTS
    assert found.embeddings == client.embed(texts=TEXTS, **QUERY).embeddings


def test_a_long_text_is_cut_where_it_is_asked_and_said_so(
    client: cohere.ClientV2, server: Server
) -> None:
    texts = ["short", "beginning " + "word " * 600 + "ending"]

    def embed(**fields: Any) -> Any:
        return client.embed(texts=texts, **QUERY, **fields)

    def ours(side: str) -> Any:
        body = {"inputs": texts, "truncate": True, "truncation_direction": side}
        return server.post("/embed", body).json()

    assert embed().embeddings.float_ == embed(truncate="END").embeddings.float_ == ours("right")
    start = embed(truncate="START")
    assert start.embeddings.float_ == ours("left") != ours("right")
    assert start.meta.warnings == ["input 1 was truncated to 256 tokens"]
    error = refused(client, texts=texts, truncate="NONE")
    assert isinstance(error, cohere.BadRequestError)
    assert (error.body["code"], error.body["index"]) == ("input_too_long", 1)


@pytest.mark.parametrize(
    ("input_type", "prompt"),
    [
        ("search_query", "query: "),
        ("search_document", "passage: "),
        ("clustering", "group: "),
        ("classification", ""),
    ],
)
def test_the_input_type_takes_the_prompt_that_the_model_has(
    prompted: Server, input_type: str, prompt: str
) -> None:
    with connect(prompted) as client:
        found = client.embed(texts=["red"], model="tiny", input_type=input_type)
    assert found.embeddings.float_ == prompted.post("/embed", {"inputs": f"{prompt}red"}).json()


@pytest.mark.parametrize(
    ("fields", "code", "named"),
    [
        ({"images": ["data:image/png;base64,"]}, "not_offered", "images is not offered"),
        (
            {"inputs": [{"content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]},
            "unknown_field",
            "image_url",
        ),
        ({"input_type": "image"}, "invalid_request", "input_type"),
        ({"embedding_types": ["float", "int4"]}, "invalid_request", "embedding_types.1"),
        ({"embedding_types": []}, "invalid_request", "embedding_types"),
        ({"max_tokens": 5}, "not_offered", "max_tokens is not offered"),
        ({"priority": 1}, "not_offered", "priority is not offered"),
        ({"truncate": "MIDDLE"}, "invalid_request", "truncate"),
        ({"output_dimension": 385}, "too_many_dimensions", "385"),
        ({"texts": []}, "no_input", "text"),
        ({"texts": None}, "invalid_request", "texts or inputs"),
        ({"inputs": [{"content": [{"type": "text", "text": "x"}]}]}, "invalid_request", "inputs"),
        ({"texts": None, "inputs": [{"content": []}]}, "invalid_request", "inputs.0.content"),
        (
            {"texts": None, "inputs": [{"content": [{"type": "text", "text": "x"}] * 2}]},
            "invalid_request",
            "inputs.0.content",
        ),
    ],
)
def test_what_is_not_offered_is_refused_by_name(
    client: cohere.ClientV2, fields: dict[str, Any], code: str, named: str
) -> None:
    error = refused(client, **fields)
    assert isinstance(error, cohere.BadRequestError)
    assert error.body["code"] == code and named in error.body["message"]
    assert error.headers is not None
    assert error.body["id"] == error.headers["x-request-id"]


def test_null_is_not_given(client: cohere.ClientV2, server: Server) -> None:
    names = set(CohereRequest.model_fields) - {"model", "input_type", "texts"}
    assert names > {"max_tokens", "images", "priority"}
    found = server.post("/v2/embed", {**QUERY, "texts": TEXTS, **dict.fromkeys(names)})
    assert found.status_code == 200, found.text
    assert (
        found.json()["embeddings"]["float"] == client.embed(texts=TEXTS, **QUERY).embeddings.float_
    )
    older = set(CohereV1Request.model_fields) - {"texts"}
    found = server.post("/v1/embed", {"texts": TEXTS, **dict.fromkeys(older)})
    assert found.status_code == 200 and "images" in older, found.text


@pytest.mark.full
def test_every_status_has_its_exception(
    client: cohere.ClientV2, guarded: Server, busy: Busy
) -> None:
    unknown = refused(client, model="embed-v4.0")
    assert isinstance(unknown, cohere.NotFoundError) and DEFAULT in unknown.body["message"]
    with connect(guarded, "wrong") as stranger:
        wrong = refused(stranger)
    assert isinstance(wrong, cohere.UnauthorizedError) and "API key" in wrong.body["message"]
    with connect(guarded, "secret") as friend, busy():
        assert isinstance(refused(friend, texts=MANY), cohere.TooManyRequestsError)


def test_the_asynchronous_client_gets_the_same(server: Server, client: cohere.ClientV2) -> None:
    async def ask() -> Any:
        async with cohere.AsyncClientV2("unused", base_url=server.url) as asynchronous:
            return await asynchronous.embed(texts=TEXTS, **QUERY)

    assert asyncio.run(ask()).embeddings == client.embed(texts=TEXTS, **QUERY).embeddings


def first(server: Server, key: str = "unused") -> cohere.Client:
    return cohere.Client(key, base_url=server.url, max_retries=0)


def test_the_first_client_gets_floats_alone_unless_it_names_types(
    server: Server, embedder: Embedder
) -> None:
    texts = TEXTS * 60  # more than it sends in one request
    with first(server) as client:
        answer: Any = client.embed(texts=texts, **QUERY)
    assert answer.response_type == "embeddings_floats" and answer.texts == texts and answer.id
    found = np.array(answer.embeddings, dtype=np.float32)
    np.testing.assert_array_equal(found, embedder.embed(texts))
    assert answer.meta.api_version.version == "1" and not answer.meta.warnings
    assert answer.meta.billed_units.input_tokens == (6 + 8) * 60


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")  # its own
def test_the_first_client_gets_the_types_that_it_names(
    server: Server, client: cohere.ClientV2
) -> None:
    types = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
    with first(server) as older:
        answer: Any = older.embed(texts=TEXTS, embedding_types=types, **QUERY)
    assert answer.response_type == "embeddings_by_type" and answer.texts == TEXTS
    newer = client.embed(texts=TEXTS, embedding_types=types, **QUERY).embeddings
    assert answer.embeddings == newer


def test_the_first_client_need_not_tell_a_model_or_a_role(prompted: Server) -> None:
    with first(prompted) as client:
        plain: Any = client.embed(texts=["red"])
        nulls: Any = client.embed(texts=["red"], model=None, input_type=None, truncate=None)
        query: Any = client.embed(texts=["red"], model="tiny", input_type="search_query")
    assert plain.embeddings == nulls.embeddings == prompted.post("/embed", {"inputs": "red"}).json()
    assert query.embeddings == prompted.post("/embed", {"inputs": "query: red"}).json()


def test_the_first_client_has_long_texts_cut_where_it_asks(server: Server) -> None:
    texts = ["short", "beginning " + "word " * 600 + "ending"]
    with first(server) as client:
        for truncate, overflow in ((None, "end"), ("END", "end"), ("START", "start")):
            answer: Any = client.embed(texts=texts, truncate=truncate, **QUERY)
            ours = server.post("/embed", {"inputs": texts, "on_overflow": overflow}).json()
            assert answer.embeddings == ours
            assert "input 1 was truncated" in answer.meta.warnings[0]
        with pytest.raises(cohere.BadRequestError, match="604 tokens in input 1"):
            client.embed(texts=texts, truncate="NONE", **QUERY)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"images": ["data:image/png;base64,"]}, "images is not offered"),
        ({"input_type": "image"}, "input_type"),
        ({"embedding_types": []}, "embedding_types"),
        ({"embedding_types": ["float", "int4"]}, "embedding_types.1"),
        ({"truncate": "MIDDLE"}, "truncate"),
        (
            {"request_options": {"additional_body_parameters": {"output_dimension": 8}}},
            "unknown field 'output_dimension'",
        ),
    ],
)
def test_what_the_first_version_does_not_offer_is_refused_in_its_shape(
    server: Server, fields: dict[str, Any], named: str
) -> None:
    with first(server) as client, pytest.raises(cohere.BadRequestError) as error:
        client.embed(**{"texts": TEXTS, **QUERY, **fields})
    body: Any = error.value.body
    assert named in body["message"]
    assert error.value.headers is not None and body["id"] == error.value.headers["x-request-id"]


@pytest.mark.full
def test_the_first_client_meets_the_same_exceptions(
    server: Server, guarded: Server, busy: Busy
) -> None:
    with first(server) as client, pytest.raises(cohere.NotFoundError):
        client.embed(texts=TEXTS, model="embed-english-v3.0")
    with first(guarded, "wrong") as stranger, pytest.raises(cohere.UnauthorizedError):
        stranger.embed(texts=TEXTS)
    with first(guarded, "secret") as friend, busy(), pytest.raises(cohere.TooManyRequestsError):
        friend.embed(texts=MANY)


def test_the_first_asynchronous_client_gets_the_same(server: Server) -> None:
    async def ask() -> Any:
        async with cohere.AsyncClient("unused", base_url=server.url) as asynchronous:
            return await asynchronous.embed(texts=TEXTS, **QUERY)

    with first(server) as client:
        same: Any = client.embed(texts=TEXTS, **QUERY)
    assert asyncio.run(ask()).embeddings == same.embeddings
