"""Voyage's Python client with a real server."""

import asyncio
from typing import Any

import numpy as np
import pytest
from voyageai.client import Client
from voyageai.client_async import AsyncClient
from voyageai.error import APIError, AuthenticationError, InvalidRequestError, RateLimitError

from embedwell_models import Embedder
from embedwell_models.hub.sources import DEFAULT
from embedwell_models.vectors import quantize, truncate_and_normalize
from tests.clients.conftest import LONG_TEXTS, KeepBusy
from tests.service.server import Server

TEXTS = ["A first text.", "Ein zweiter Text."]


def client_of(server: Server, key: str = "unused") -> Client:
    return Client(key, max_retries=1, base_url=f"{server.url}/v1")


@pytest.fixture(scope="module")
def client(server: Server) -> Client:
    return client_of(server)


def test_the_client_gets_vectors_and_token_counts(client: Client, embedder: Embedder) -> None:
    response = client.embed(TEXTS, model=DEFAULT)
    vectors = np.array(response.embeddings, dtype=np.float32)
    np.testing.assert_array_equal(vectors, embedder.embed(TEXTS))
    assert response.total_tokens == 6 + 8


@pytest.mark.parametrize("dtype", ["float", "int8", "uint8", "binary", "ubinary"])
def test_the_client_gets_the_requested_type_and_dimension(
    server_any_dimensions: Server, embedder: Embedder, dtype: str
) -> None:
    response = client_of(server_any_dimensions).embed(
        TEXTS, model=DEFAULT, output_dtype=dtype, output_dimension=64
    )
    short = truncate_and_normalize(embedder.embed(TEXTS), 64, True)
    expected: Any = quantize(short, "float32" if dtype == "float" else dtype)
    vectors = np.array(response.embeddings, dtype=expected.dtype)
    np.testing.assert_allclose(vectors, expected, atol=1e-7 if dtype == "float" else 0)


def test_a_long_text_is_truncated_unless_the_client_refuses(client: Client) -> None:
    texts = ["short", "word " * 600]
    assert client.embed(texts, model=DEFAULT).total_tokens == 3 + 256
    with pytest.raises(InvalidRequestError, match="602 tokens in input 1"):
        client.embed(texts, model=DEFAULT, truncation=False)


@pytest.mark.parametrize(
    ("input_type", "prompt"), [("query", "query: "), ("document", "passage: "), (None, "")]
)
def test_the_input_type_selects_a_prompt_of_the_model(
    server_with_prompts: Server, input_type: str | None, prompt: str
) -> None:
    response = client_of(server_with_prompts).embed(["red"], model="tiny", input_type=input_type)
    expected = client_of(server_with_prompts).embed([f"{prompt}red"], model="tiny")
    assert response.embeddings == expected.embeddings


@pytest.mark.full
def test_error_statuses_raise_the_clients_exceptions(
    client: Client, strict_server: Server, keep_busy: KeepBusy
) -> None:
    with pytest.raises(InvalidRequestError, match="385"):
        client.embed(TEXTS, model=DEFAULT, output_dimension=385)
    with pytest.raises(APIError, match="no model 'voyage-4'"):
        client.embed(TEXTS, model="voyage-4")
    with pytest.raises(AuthenticationError, match="API key"):
        client_of(strict_server, "wrong").embed(TEXTS, model=DEFAULT)
    client_with_key = client_of(strict_server, "secret")
    with keep_busy(), pytest.raises(RateLimitError, match="would wait"):
        client_with_key.embed(LONG_TEXTS, model=DEFAULT)


def test_the_asynchronous_client_gets_the_same_vectors(server: Server, client: Client) -> None:
    async def embed_async() -> Any:
        async_client = AsyncClient("unused", base_url=f"{server.url}/v1")
        return await async_client.embed(TEXTS, model=DEFAULT)

    assert asyncio.run(embed_async()).embeddings == client.embed(TEXTS, model=DEFAULT).embeddings
