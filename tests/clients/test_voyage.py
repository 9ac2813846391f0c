"""Voyage's own client against a running server."""

import asyncio
from typing import Any

import numpy as np
import pytest
from voyageai.client import Client
from voyageai.client_async import AsyncClient
from voyageai.error import APIError, AuthenticationError, InvalidRequestError, RateLimitError

from models import Embedder
from models.hub.sources import DEFAULT
from models.vectors import finish, quantize
from tests.clients.conftest import MANY, Busy
from tests.service.server import Server

TEXTS = ["A first text.", "Ein zweiter Text."]


def connect(server: Server, key: str = "unused") -> Client:
    return Client(key, max_retries=1, base_url=f"{server.url}/v1")


@pytest.fixture(scope="module")
def client(server: Server) -> Client:
    return connect(server)


def test_it_gets_the_vectors_and_the_tokens(client: Client, embedder: Embedder) -> None:
    answer = client.embed(TEXTS, model=DEFAULT)
    found = np.array(answer.embeddings, dtype=np.float32)
    np.testing.assert_array_equal(found, embedder.embed(TEXTS))
    assert answer.total_tokens == 6 + 8


@pytest.mark.parametrize("dtype", ["float", "int8", "uint8", "binary", "ubinary"])
def test_it_gets_the_type_and_the_dimension_that_it_asks_for(
    cutting: Server, embedder: Embedder, dtype: str
) -> None:
    answer = connect(cutting).embed(TEXTS, model=DEFAULT, output_dtype=dtype, output_dimension=64)
    short = finish(embedder.embed(TEXTS), 64, True)
    expected: Any = quantize(short, "float32" if dtype == "float" else dtype)
    found = np.array(answer.embeddings, dtype=expected.dtype)
    np.testing.assert_allclose(found, expected, atol=1e-7 if dtype == "float" else 0)


def test_a_long_text_is_cut_unless_it_says_no(client: Client) -> None:
    texts = ["short", "word " * 600]
    assert client.embed(texts, model=DEFAULT).total_tokens == 3 + 256
    with pytest.raises(InvalidRequestError, match="602 tokens in input 1"):
        client.embed(texts, model=DEFAULT, truncation=False)


@pytest.mark.parametrize(
    ("input_type", "prompt"), [("query", "query: "), ("document", "passage: "), (None, "")]
)
def test_the_input_type_takes_the_prompt_that_the_model_has(
    prompted: Server, input_type: str | None, prompt: str
) -> None:
    answer = connect(prompted).embed(["red"], model="tiny", input_type=input_type)
    same = connect(prompted).embed([f"{prompt}red"], model="tiny")
    assert answer.embeddings == same.embeddings


@pytest.mark.full
def test_every_status_has_its_exception(client: Client, guarded: Server, busy: Busy) -> None:
    with pytest.raises(InvalidRequestError, match="385"):
        client.embed(TEXTS, model=DEFAULT, output_dimension=385)
    with pytest.raises(APIError, match="no model 'voyage-4'"):
        client.embed(TEXTS, model="voyage-4")
    with pytest.raises(AuthenticationError, match="API key"):
        connect(guarded, "wrong").embed(TEXTS, model=DEFAULT)
    friend = connect(guarded, "secret")
    with busy(), pytest.raises(RateLimitError, match="would wait"):
        friend.embed(MANY, model=DEFAULT)


def test_the_asynchronous_client_gets_the_same(server: Server, client: Client) -> None:
    async def ask() -> Any:
        asynchronous = AsyncClient("unused", base_url=f"{server.url}/v1")
        return await asynchronous.embed(TEXTS, model=DEFAULT)

    assert asyncio.run(ask()).embeddings == client.embed(TEXTS, model=DEFAULT).embeddings
