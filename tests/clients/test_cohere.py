"""Cohere's Python client with a real server."""

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import cohere
import httpx
import numpy as np
import pytest
from cohere.core.api_error import ApiError

from embedwell.routes.cohere import CohereRequest, CohereV1Request
from embedwell_models import Embedder
from embedwell_models.hub.sources import DEFAULT
from embedwell_models.vectors import quantize
from tests.clients.conftest import LONG_TEXTS, KeepBusy
from tests.service.server import Server

TEXTS = ["A first text.", "Ein zweiter Text."]
IMAGE = {"content": [{"type": "image_url", "image_url": {"url": "data:"}}]}
QUERY: dict[str, Any] = {"model": DEFAULT, "input_type": "search_query"}


def client_of(server: Server, key: str = "unused") -> cohere.ClientV2:
    return cohere.ClientV2(key, base_url=server.url, max_retries=0)


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[cohere.ClientV2]:
    with client_of(server) as client:
        yield client


def error_of(client: cohere.ClientV2, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as error:
        client.embed(**{**QUERY, "texts": TEXTS, **fields})
    return error.value


def test_a_response_has_float_vectors_texts_and_token_counts(
    client: cohere.ClientV2, embedder: Embedder
) -> None:
    response = client.embed(texts=TEXTS, **QUERY)
    assert response.embeddings.float_ is not None and response.meta is not None
    vectors = np.array(response.embeddings.float_, dtype=np.float32)
    np.testing.assert_array_equal(vectors, embedder.embed(TEXTS))
    assert response.embeddings.int8 is None
    assert (
        response.texts == TEXTS and response.response_type == "embeddings_by_type" and response.id
    )
    assert response.meta.billed_units is not None and response.meta.api_version is not None
    assert response.meta.billed_units.input_tokens == 6 + 8
    assert response.meta.api_version.version == "2" and response.meta.warnings is None


def test_a_response_may_have_several_types(client: cohere.ClientV2, embedder: Embedder) -> None:
    types = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
    vectors = client.embed(texts=TEXTS, embedding_types=types, **QUERY).embeddings
    exact = embedder.embed(TEXTS)
    np.testing.assert_array_equal(np.array(vectors.float_, dtype=np.float32), exact)
    for kind in ("int8", "uint8", "binary", "ubinary"):
        assert getattr(vectors, kind) == quantize(exact, kind).tolist(), kind
    assert vectors.base64 is not None
    decoded = [np.frombuffer(base64.b64decode(row), dtype="<f4") for row in vectors.base64]
    np.testing.assert_array_equal(np.stack(decoded), exact)


def test_output_dimension_truncates_to_unit_length(server_any_dimensions: Server) -> None:
    with client_of(server_any_dimensions) as client:
        (vector,) = client.embed(texts=["x"], output_dimension=32, **QUERY).embeddings.float_ or []
    assert len(vector) == 32 and abs(np.linalg.norm(vector) - 1) < 1e-6


def test_inputs_with_text_content_equal_texts(client: cohere.ClientV2) -> None:
    inputs: list[Any] = [{"content": [{"type": "text", "text": text}]} for text in TEXTS]
    vectors = client.embed(inputs=inputs, **QUERY)
    assert vectors.texts == TEXTS
    assert vectors.embeddings == client.embed(texts=TEXTS, **QUERY).embeddings


def test_truncation_cuts_the_requested_side_with_a_warning(
    client: cohere.ClientV2, server: Server
) -> None:
    texts = ["short", "beginning " + "word " * 600 + "ending"]

    def embed(**fields: Any) -> Any:
        return client.embed(texts=texts, **QUERY, **fields)

    def embed_from_side(side: str) -> Any:
        body = {"inputs": texts, "truncate": True, "truncation_direction": side}
        return server.post("/embed", body).json()

    assert (
        embed().embeddings.float_
        == embed(truncate="END").embeddings.float_
        == embed_from_side("right")
    )
    start = embed(truncate="START")
    assert start.embeddings.float_ == embed_from_side("left") != embed_from_side("right")
    assert start.meta.warnings == ["input 1 was truncated to 256 tokens"]
    error = error_of(client, texts=texts, truncate="NONE")
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
def test_the_input_type_selects_a_prompt_of_the_model(
    server_with_prompts: Server, input_type: str, prompt: str
) -> None:
    with client_of(server_with_prompts) as client:
        response = client.embed(texts=["red"], model="tiny", input_type=input_type)
    assert (
        response.embeddings.float_
        == server_with_prompts.post("/embed", {"inputs": f"{prompt}red"}).json()
    )


@pytest.mark.parametrize(
    ("fields", "code", "message_part"),
    [
        ({"images": ["data:image/png;base64,"]}, "invalid_request", "texts, images and inputs"),
        ({"texts": None, "images": ["data:"]}, "not_offered", "reads texts only"),
        ({"texts": None, "inputs": [IMAGE]}, "not_offered", "reads texts only"),
        ({"input_type": "picture"}, "invalid_request", "input_type"),
        ({"embedding_types": ["float", "int4"]}, "invalid_request", "embedding_types.1"),
        ({"embedding_types": []}, "invalid_request", "embedding_types"),
        ({"max_tokens": 5}, "not_offered", "max_tokens is not supported"),
        ({"priority": 1}, "not_offered", "priority is not supported"),
        ({"truncate": "MIDDLE"}, "invalid_request", "truncate"),
        ({"output_dimension": 385}, "too_many_dimensions", "385"),
        ({"texts": []}, "no_input", "text"),
        ({"texts": None}, "invalid_request", "texts, images and inputs"),
        ({"inputs": [{"content": [{"type": "text", "text": "x"}]}]}, "invalid_request", "inputs"),
        ({"texts": None, "inputs": [{"content": []}]}, "invalid_request", "inputs.0.content"),
        (
            {"texts": None, "inputs": [{"content": [{"type": "text", "text": "x"}] * 2}]},
            "not_offered",
            f"input 0 has 2 parts of content, but the model {DEFAULT!r}",
        ),
    ],
)
def test_unsupported_fields_are_refused_by_name(
    client: cohere.ClientV2, fields: dict[str, Any], code: str, message_part: str
) -> None:
    error = error_of(client, **fields)
    assert isinstance(error, cohere.BadRequestError)
    assert error.body["code"] == code and message_part in error.body["message"]
    assert error.headers is not None
    assert error.body["id"] == error.headers["x-request-id"]


def test_null_equals_an_absent_field(client: cohere.ClientV2, server: Server) -> None:
    names = set(CohereRequest.model_fields) - {"model", "input_type", "texts"}
    assert names > {"max_tokens", "images", "priority"}
    response = server.post("/v2/embed", {**QUERY, "texts": TEXTS, **dict.fromkeys(names)})
    assert response.status_code == 200, response.text
    assert (
        response.json()["embeddings"]["float"]
        == client.embed(texts=TEXTS, **QUERY).embeddings.float_
    )
    v1_client = set(CohereV1Request.model_fields) - {"texts"}
    response = server.post("/v1/embed", {"texts": TEXTS, **dict.fromkeys(v1_client)})
    assert response.status_code == 200 and "images" in v1_client, response.text


@pytest.mark.full
def test_error_statuses_raise_the_clients_exceptions(
    client: cohere.ClientV2, strict_server: Server, keep_busy: KeepBusy
) -> None:
    not_found = error_of(client, model="embed-v4.0")
    assert isinstance(not_found, cohere.NotFoundError) and DEFAULT in not_found.body["message"]
    with client_of(strict_server, "wrong") as client_with_wrong_key:
        unauthorized = error_of(client_with_wrong_key)
    assert (
        isinstance(unauthorized, cohere.UnauthorizedError)
        and "API key" in unauthorized.body["message"]
    )
    with client_of(strict_server, "secret") as client_with_key, keep_busy():
        assert isinstance(error_of(client_with_key, texts=LONG_TEXTS), cohere.TooManyRequestsError)


def test_the_asynchronous_client_gets_the_same_vectors(
    server: Server, client: cohere.ClientV2
) -> None:
    async def embed_async() -> Any:
        async with cohere.AsyncClientV2("unused", base_url=server.url) as async_client:
            return await async_client.embed(texts=TEXTS, **QUERY)

    assert asyncio.run(embed_async()).embeddings == client.embed(texts=TEXTS, **QUERY).embeddings


def v1_client_of(server: Server, key: str = "unused") -> cohere.Client:
    return cohere.Client(key, base_url=server.url, max_retries=0)


def test_v1_returns_only_floats_by_default(server: Server, embedder: Embedder) -> None:
    texts = TEXTS * 60  # more than it sends in one request
    with v1_client_of(server) as client:
        response: Any = client.embed(texts=texts, **QUERY)
    assert response.response_type == "embeddings_floats" and response.texts == texts and response.id
    vectors = np.array(response.embeddings, dtype=np.float32)
    np.testing.assert_array_equal(vectors, embedder.embed(texts))
    assert response.meta.api_version.version == "1" and not response.meta.warnings
    assert response.meta.billed_units.input_tokens == (6 + 8) * 60


@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")  # its own
def test_v1_returns_the_requested_types(server: Server, client: cohere.ClientV2) -> None:
    types = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
    with v1_client_of(server) as v1_client:
        response: Any = v1_client.embed(texts=TEXTS, embedding_types=types, **QUERY)
    assert response.response_type == "embeddings_by_type" and response.texts == TEXTS
    v2_embeddings = client.embed(texts=TEXTS, embedding_types=types, **QUERY).embeddings
    assert response.embeddings == v2_embeddings


def test_v1_needs_neither_a_model_nor_an_input_type(server_with_prompts: Server) -> None:
    with v1_client_of(server_with_prompts) as client:
        plain: Any = client.embed(texts=["red"])
        nulls: Any = client.embed(texts=["red"], model=None, input_type=None, truncate=None)
        query: Any = client.embed(texts=["red"], model="tiny", input_type="search_query")
    assert (
        plain.embeddings
        == nulls.embeddings
        == server_with_prompts.post("/embed", {"inputs": "red"}).json()
    )
    assert query.embeddings == server_with_prompts.post("/embed", {"inputs": "query: red"}).json()


def test_v1_truncation_cuts_the_requested_side(server: Server) -> None:
    texts = ["short", "beginning " + "word " * 600 + "ending"]
    with v1_client_of(server) as client:
        for truncate, overflow in ((None, "end"), ("END", "end"), ("START", "start")):
            response: Any = client.embed(texts=texts, truncate=truncate, **QUERY)
            expected = server.post("/embed", {"inputs": texts, "on_overflow": overflow}).json()
            assert response.embeddings == expected
            assert "input 1 was truncated" in response.meta.warnings[0]
        with pytest.raises(cohere.BadRequestError, match="604 tokens in input 1"):
            client.embed(texts=texts, truncate="NONE", **QUERY)


@pytest.mark.parametrize(
    ("fields", "message_part"),
    [
        ({"images": ["data:image/png;base64,"]}, "images is not supported"),
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
def test_v1_refuses_unsupported_fields_by_name(
    server: Server, fields: dict[str, Any], message_part: str
) -> None:
    with v1_client_of(server) as client, pytest.raises(cohere.BadRequestError) as error:
        client.embed(**{"texts": TEXTS, **QUERY, **fields})
    body: Any = error.value.body
    assert message_part in body["message"]
    assert error.value.headers is not None and body["id"] == error.value.headers["x-request-id"]


@pytest.mark.full
def test_v1_error_statuses_raise_the_clients_exceptions(
    server: Server, strict_server: Server, keep_busy: KeepBusy
) -> None:
    with v1_client_of(server) as client, pytest.raises(cohere.NotFoundError):
        client.embed(texts=TEXTS, model="embed-english-v3.0")
    with (
        v1_client_of(strict_server, "wrong") as client_with_wrong_key,
        pytest.raises(cohere.UnauthorizedError),
    ):
        client_with_wrong_key.embed(texts=TEXTS)
    with (
        v1_client_of(strict_server, "secret") as client_with_key,
        keep_busy(),
        pytest.raises(cohere.TooManyRequestsError),
    ):
        client_with_key.embed(texts=LONG_TEXTS)


def test_the_asynchronous_v1_client_gets_the_same_vectors(server: Server) -> None:
    async def embed_async() -> Any:
        async with cohere.AsyncClient("unused", base_url=server.url) as async_client:
            return await async_client.embed(texts=TEXTS, **QUERY)

    with v1_client_of(server) as client:
        expected: Any = client.embed(texts=TEXTS, **QUERY)
    assert asyncio.run(embed_async()).embeddings == expected.embeddings


def test_tokens_are_those_of_the_model(server: Server, embedder: Embedder) -> None:
    with cohere.Client("unused", base_url=server.url, max_retries=0) as client:
        tokens = client.tokenize(text=TEXTS[0], model=DEFAULT)  # offline is tried first
        text = client.detokenize(tokens=tokens.tokens, model=DEFAULT).text
    assert tokens.tokens == embedder.tokenize([TEXTS[0]])[0][1:-1]
    assert tokens.token_strings == ["A", "first", "text", "."] and text == "a first text."


def test_the_key_can_be_checked(strict_server: Server) -> None:
    def check(key: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {key}"}
        return httpx.post(f"{strict_server.url}/v1/check-api-key", headers=headers, timeout=120)

    assert check("secret").json() == {"valid": True}
    assert check("wrong").status_code == 401
