"""OpenAI's Python client with a real server."""

import asyncio
import base64
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest
from openai.types import CreateEmbeddingResponse

from embedwell_models import Embedder
from embedwell_models.hub.sources import DEFAULT
from tests.clients.conftest import LONG_TEXTS, KeepBusy
from tests.service.server import Server

TEXTS = ["A first text.", "Ein zweiter Text."]


def client_of(server: Server, key: str = "unused") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[openai.OpenAI]:
    with client_of(server) as client:
        yield client


def check(response: CreateEmbeddingResponse, expected: object) -> None:
    vectors = np.array([row.embedding for row in response.data], dtype=np.float32)
    np.testing.assert_array_equal(vectors, expected)
    assert [row.index for row in response.data] == list(range(len(vectors)))
    assert {row.object for row in response.data} == {"embedding"}
    assert response.model == DEFAULT and response.object == "list"


def test_vectors_are_the_same_as_base64_and_as_floats(
    client: openai.OpenAI, embedder: Embedder
) -> None:
    expected = embedder.embed(TEXTS)
    check(client.embeddings.create(model=DEFAULT, input=TEXTS[0]), expected[:1])
    check(client.embeddings.create(model=DEFAULT, input=TEXTS), expected)
    response = client.embeddings.create(model=DEFAULT, input=TEXTS, encoding_format="float")
    check(response, expected)
    assert response.usage.prompt_tokens == response.usage.total_tokens == 6 + 8


def test_requested_base64_is_not_decoded_by_the_client(client: openai.OpenAI) -> None:
    response = client.embeddings.create(model=DEFAULT, input="x", encoding_format="base64")
    vectors: Any = response.data[0].embedding
    assert len(np.frombuffer(base64.b64decode(vectors), dtype="<f4")) == 384


def test_token_ids_are_accepted(client: openai.OpenAI, embedder: Embedder) -> None:
    rows = embedder.tokenize(TEXTS)
    expected = embedder.embed(TEXTS)
    check(client.embeddings.create(model=DEFAULT, input=rows[0], user="someone"), expected[:1])
    check(client.embeddings.create(model=DEFAULT, input=rows), expected)


def test_ids_of_the_tokenizer_of_openai_are_refused_with_the_option_of_langchain(
    client: openai.OpenAI,
) -> None:
    ids = [32, 1176, 1495, 13]  # cl100k_base's of the first text, which LangChain sends by default
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False") as error:
        client.embeddings.create(model=DEFAULT, input=[ids])
    assert error.value.code == "no_special_tokens" and error.value.param == "input"


def test_dimensions_truncate_the_vector_to_unit_length(server_any_dimensions: Server) -> None:
    with client_of(server_any_dimensions) as client:
        short = client.embeddings.create(model=DEFAULT, input="x", dimensions=32).data[0].embedding
    assert len(short) == 32 and abs(np.linalg.norm(short) - 1) < 1e-6


def test_the_asynchronous_client_gets_the_same_vectors(server: Server, embedder: Embedder) -> None:
    async def embed_async() -> CreateEmbeddingResponse:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="unused") as client:
            return await client.embeddings.create(model=DEFAULT, input=TEXTS)

    check(asyncio.run(embed_async()), embedder.embed(TEXTS))


def test_a_request_of_semantic_kernel_gets_the_same_vectors(
    server: Server, embedder: Embedder
) -> None:
    # OpenAITextEmbedding of Semantic Kernel 1.45 sends just these, by OpenAI's own client.
    async def embed_async() -> CreateEmbeddingResponse:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="unused") as client:
            return await client.embeddings.create(
                model=DEFAULT, input=TEXTS, extra_headers={"semantic-kernel-version": "python/1.45"}
            )

    check(asyncio.run(embed_async()), embedder.embed(TEXTS))


def test_the_model_is_listed_and_retrieved(client: openai.OpenAI) -> None:
    listed, full_name = client.models.list()
    retrieved = client.models.retrieve(DEFAULT)
    assert listed == retrieved and (retrieved.id, retrieved.object) == (DEFAULT, "model")
    assert client.models.retrieve(f"sentence-transformers/{DEFAULT}") == full_name
    assert retrieved.created > 1_700_000_000 and retrieved.owned_by


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"extra_body": {"surprise": 1}}, "unknown_field", "surprise"),
        ({"input": []}, "no_input", "input"),
        ({"input": [[]]}, "no_input", "input"),
        ({"input": [[10**6]]}, "unknown_token", "input"),
        ({"input": [1.5]}, "invalid_request", "input"),
        ({"dimensions": 385}, "too_many_dimensions", "dimensions"),
        ({"dimensions": 32}, "dimensions_not_offered", "dimensions"),
        ({"dimensions": -1}, "invalid_request", "dimensions"),
        ({"encoding_format": "hex"}, "invalid_request", "encoding_format"),
    ],
)
def test_an_error_names_the_invalid_field(
    client: openai.OpenAI, fields: dict[str, Any], code: str, param: str | None
) -> None:
    arguments: dict[str, Any] = {"model": DEFAULT, "input": "x", **fields}
    with pytest.raises(openai.BadRequestError) as raised:
        client.embeddings.create(**arguments)
    error: Any = raised.value
    assert (error.code, error.param, error.type) == (code, param, "invalid_request_error")
    assert error.request_id == error.body["request_id"]


def test_a_too_long_text_is_refused_with_openais_message(client: openai.OpenAI) -> None:
    texts = ["short", "word " * 600]
    with pytest.raises(openai.BadRequestError) as raised:
        client.embeddings.create(model=DEFAULT, input=texts, extra_body={"truncate": False})
    words = (
        r"This model's maximum context length is (\d+) tokens, however you requested (\d+) tokens"
    )
    match = re.search(words, raised.value.message)
    assert match is not None and match.groups() == ("256", "602")
    error: Any = raised.value
    assert (error.code, error.body["index"]) == ("input_too_long", 1)


def test_another_model_is_not_found(client: openai.OpenAI) -> None:
    for embed_async in (
        lambda: client.embeddings.create(model="text-embedding-3-small", input="x"),
        lambda: client.models.retrieve("text-embedding-3-small"),
    ):
        with pytest.raises(openai.NotFoundError) as not_found:
            embed_async()
        assert (not_found.value.code, not_found.value.param) == ("model_not_found", "model")


def test_a_wrong_key_and_a_full_queue_raise_the_clients_exceptions(
    strict_server: Server, keep_busy: KeepBusy
) -> None:
    with (
        client_of(strict_server, "wrong") as client_with_wrong_key,
        pytest.raises(openai.AuthenticationError) as unauthorized,
    ):
        client_with_wrong_key.embeddings.create(model=DEFAULT, input="x")
    assert unauthorized.value.code == "invalid_api_key"
    assert "Incorrect API key provided" in unauthorized.value.message
    with client_of(strict_server, "secret") as client:
        assert client.embeddings.create(model=DEFAULT, input="x").data
        with keep_busy(), pytest.raises(openai.RateLimitError) as raised:
            client.embeddings.create(model=DEFAULT, input=LONG_TEXTS)
    assert (raised.value.code, raised.value.type) == ("overloaded", "rate_limit_error")
    assert int(raised.value.response.headers["retry-after"]) >= 1


def test_the_client_retries_a_refused_request(strict_server: Server, keep_busy: KeepBusy) -> None:
    statuses = list[int]()
    with client_of(strict_server, "secret") as client, keep_busy() as go_on:

        def note(response: Any) -> None:
            statuses.append(response.status_code)
            go_on()

        with openai.DefaultHttpxClient(event_hooks={"response": [note]}) as http_client:
            retrying_client = client.with_options(max_retries=10, http_client=http_client)
            assert retrying_client.embeddings.create(model=DEFAULT, input=LONG_TEXTS).data
    assert (statuses[0], statuses[-1]) == (429, 200)


def test_a_suffix_of_the_model_selects_the_prompt(server_with_prompts: Server) -> None:
    with client_of(server_with_prompts) as client:
        for suffix, prompt in (("-query", "query: "), ("-passage", "passage: "), ("", "")):
            response = client.embeddings.create(model=f"tiny{suffix}", input="red")
            expected = client.embeddings.create(model="tiny", input=f"{prompt}red")
            assert response.data == expected.data and response.model == "tiny"
