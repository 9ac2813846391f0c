"""OpenAI's client for Azure with a real server."""

import asyncio
from collections.abc import Iterator

import numpy as np
import openai
import pytest

from embedwell_models import Embedder
from embedwell_models.hub.sources import DEFAULT
from tests.service.server import Server

TEXTS = ["A first text.", "Ein zweiter Text."]
VERSION = "2024-10-21"


def client_of(server: Server, key: str = "unused") -> openai.AzureOpenAI:
    return openai.AzureOpenAI(
        azure_endpoint=server.url, api_key=key, api_version=VERSION, max_retries=0
    )


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[openai.AzureOpenAI]:
    with client_of(server) as client:
        yield client


@pytest.mark.parametrize("model", [DEFAULT, f"sentence-transformers/{DEFAULT}"])
def test_the_client_gets_the_vectors_of_a_deployment(
    client: openai.AzureOpenAI, embedder: Embedder, model: str
) -> None:
    response = client.embeddings.create(model=model, input=TEXTS)
    vectors = np.array([row.embedding for row in response.data], dtype=np.float32)
    np.testing.assert_array_equal(vectors, embedder.embed(TEXTS))
    assert response.usage.total_tokens == 6 + 8


def test_the_client_that_names_its_deployment_may_call_the_model_anything(
    server: Server, client: openai.AzureOpenAI
) -> None:
    with openai.AzureOpenAI(
        azure_endpoint=server.url, azure_deployment=DEFAULT, api_key="unused", api_version=VERSION
    ) as named:
        response = named.embeddings.create(model="text-embedding-3-small", input=TEXTS)
    assert response.data == client.embeddings.create(model=DEFAULT, input=TEXTS).data


def test_the_asynchronous_client_gets_the_same_vectors(
    server: Server, client: openai.AzureOpenAI
) -> None:
    async def embed() -> list[list[float]]:
        async with openai.AsyncAzureOpenAI(
            azure_endpoint=server.url, api_key="unused", api_version=VERSION
        ) as asynchronous:
            response = await asynchronous.embeddings.create(model=DEFAULT, input=TEXTS)
        return [row.embedding for row in response.data]

    expected = client.embeddings.create(model=DEFAULT, input=TEXTS)
    assert asyncio.run(embed()) == [row.embedding for row in expected.data]


def test_the_client_lists_the_models(client: openai.AzureOpenAI) -> None:
    assert DEFAULT in {model.id for model in client.models.list()}


def test_errors_raise_the_clients_exceptions(
    strict_server: Server, client: openai.AzureOpenAI
) -> None:
    with pytest.raises(openai.NotFoundError) as not_found:
        client.embeddings.create(model="text-embedding-3-small", input="x")
    assert (not_found.value.code, not_found.value.param) == ("model_not_found", "model")
    with client_of(strict_server, "wrong") as wrong, pytest.raises(openai.AuthenticationError):
        wrong.embeddings.create(model=DEFAULT, input="x")
    with client_of(strict_server, "secret") as right:
        assert right.embeddings.create(model=DEFAULT, input="x").data
