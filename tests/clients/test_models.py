"""Lists of models, as the clients of Cohere and Mistral read them."""

from typing import Any

import cohere
import pytest
from mistralai.client import Mistral

from embedwell_models.hub.sources import DEFAULT
from tests.clients.example_program import run_program
from tests.service.server import HttpServer, Server

FULL_NAME = f"sentence-transformers/{DEFAULT}"


def test_cohere_lists_and_describes_the_models(server: Server) -> None:
    with cohere.Client("unused", base_url=server.url, max_retries=0) as client:
        listed = client.models.list(page_size=10, default_only=False).models
        retrieved = client.models.get(DEFAULT)
        assert [model.name for model in listed] == [DEFAULT, FULL_NAME]
        assert (listed[0].context_length, listed[0].endpoints) == (256, ["embed", "rerank"])
        assert (retrieved.name, retrieved.context_length) == (DEFAULT, 256)
        assert retrieved.endpoints == listed[0].endpoints
        assert len(client.models.list(endpoint="rerank").models) == 2
        assert not client.models.list(endpoint="chat").models


def test_cohere_sees_that_a_reranker_does_not_embed(reranker: HttpServer) -> None:
    with cohere.Client("unused", base_url=reranker.url, max_retries=0) as client:
        assert not client.models.list(endpoint="embed").models
        [model] = client.models.list(endpoint="rerank").models
    assert (model.name, model.finetuned) == ("reranker", False)


@pytest.mark.parametrize("name", [DEFAULT, FULL_NAME])
def test_mistral_lists_and_describes_the_models(server: Server, name: str) -> None:
    with Mistral(api_key="unused", server_url=server.url) as client:
        listed: Any = client.models.list().data
        retrieved: Any = client.models.retrieve(model_id=name)
    assert [model.id for model in listed] == [DEFAULT, FULL_NAME]
    for model in (*listed, retrieved):
        assert (model.type, model.max_context_length) == ("base", 256)
        assert not (model.capabilities.completion_chat or model.capabilities.function_calling)
    assert retrieved.id == name


@pytest.mark.full
def test_teis_clients_reach_a_model_by_its_base_address(server: Server) -> None:
    code = """
from huggingface_hub import InferenceClient

client = InferenceClient("http://localhost:8080/m/sentence-transformers/all-MiniLM-L6-v2")
vectors = client.feature_extraction(["you", "me"])
plain = InferenceClient("http://localhost:8080").feature_extraction(["you", "me"])
"""
    result = "[vectors.tolist() == plain.tolist(), vectors.shape]"
    assert run_program(server, code, result) == [True, [2, 384]]
