"""OpenAI's own client against a running server."""

import asyncio
import base64
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest
from openai.types import CreateEmbeddingResponse

from models import Embedder
from models.hub.sources import DEFAULT
from tests.clients.conftest import MANY, Busy
from tests.service.server import Server

TEXTS = ["A first text.", "Ein zweiter Text."]


def connect(server: Server, key: str = "unused") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[openai.OpenAI]:
    with connect(server) as found:
        yield found


def check(answer: CreateEmbeddingResponse, expected: object) -> None:
    found = np.array([row.embedding for row in answer.data], dtype=np.float32)
    np.testing.assert_array_equal(found, expected)
    assert [row.index for row in answer.data] == list(range(len(found)))
    assert {row.object for row in answer.data} == {"embedding"}
    assert answer.model == DEFAULT and answer.object == "list"


def test_a_text_and_texts_come_in_its_default_base64_and_as_floats(
    client: openai.OpenAI, embedder: Embedder
) -> None:
    expected = embedder.embed(TEXTS)
    check(client.embeddings.create(model=DEFAULT, input=TEXTS[0]), expected[:1])
    check(client.embeddings.create(model=DEFAULT, input=TEXTS), expected)
    answer = client.embeddings.create(model=DEFAULT, input=TEXTS, encoding_format="float")
    check(answer, expected)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == 6 + 8


def test_base64_that_is_asked_for_stays_base64(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model=DEFAULT, input="x", encoding_format="base64")
    found: Any = answer.data[0].embedding
    assert len(np.frombuffer(base64.b64decode(found), dtype="<f4")) == 384


def test_token_ids_and_lists_of_them_are_taken_as_they_are(
    client: openai.OpenAI, embedder: Embedder
) -> None:
    rows = [row.ids for row in embedder.tokenize(TEXTS)]
    expected = embedder.embed(TEXTS)
    check(client.embeddings.create(model=DEFAULT, input=rows[0], user="someone"), expected[:1])
    check(client.embeddings.create(model=DEFAULT, input=rows), expected)


def test_dimensions_shorten_the_vector_to_unit_length(cutting: Server) -> None:
    with connect(cutting) as client:
        short = client.embeddings.create(model=DEFAULT, input="x", dimensions=32).data[0].embedding
    assert len(short) == 32 and abs(np.linalg.norm(short) - 1) < 1e-6


def test_the_asynchronous_client_gets_the_same(server: Server, embedder: Embedder) -> None:
    async def ask() -> CreateEmbeddingResponse:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="unused") as client:
            return await client.embeddings.create(model=DEFAULT, input=TEXTS)

    check(asyncio.run(ask()), embedder.embed(TEXTS))


def test_the_request_of_semantic_kernel_gets_the_same(server: Server, embedder: Embedder) -> None:
    # OpenAITextEmbedding of Semantic Kernel 1.45 sends just these, by OpenAI's own client.
    async def ask() -> CreateEmbeddingResponse:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="unused") as client:
            return await client.embeddings.create(
                model=DEFAULT, input=TEXTS, extra_headers={"semantic-kernel-version": "python/1.45"}
            )

    check(asyncio.run(ask()), embedder.embed(TEXTS))


def test_the_model_is_listed_and_retrieved(client: openai.OpenAI) -> None:
    listed, also = client.models.list()
    found = client.models.retrieve(DEFAULT)
    assert listed == found and (found.id, found.object) == (DEFAULT, "model")
    assert client.models.retrieve(f"sentence-transformers/{DEFAULT}") == also
    assert found.created > 1_700_000_000 and found.owned_by


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"extra_body": {"surprise": 1}}, "unknown_field", "surprise"),
        ({"input": []}, "no_input", None),
        ({"input": [[]]}, "no_input", None),
        ({"input": [[10**6]]}, "unknown_token", None),
        ({"input": [1.5]}, "invalid_request", "input"),
        ({"dimensions": 385}, "too_many_dimensions", "dimensions"),
        ({"dimensions": 32}, "dimensions_not_offered", "dimensions"),
        ({"dimensions": -1}, "invalid_request", "dimensions"),
        ({"encoding_format": "hex"}, "invalid_request", "encoding_format"),
    ],
)
def test_a_bad_request_names_the_field(
    client: openai.OpenAI, fields: dict[str, Any], code: str, param: str | None
) -> None:
    asked: dict[str, Any] = {"model": DEFAULT, "input": "x", **fields}
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(**asked)
    error: Any = refused.value
    assert (error.code, error.param, error.type) == (code, param, "invalid_request_error")
    assert error.request_id == error.body["request_id"]


def test_a_text_that_is_too_long_is_refused_in_openais_words(client: openai.OpenAI) -> None:
    texts = ["short", "word " * 600]
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model=DEFAULT, input=texts, extra_body={"truncate": False})
    words = (
        r"This model's maximum context length is (\d+) tokens, however you requested (\d+) tokens"
    )
    found = re.search(words, refused.value.message)
    assert found is not None and found.groups() == ("256", "602")
    error: Any = refused.value
    assert (error.code, error.body["index"]) == ("input_too_long", 1)


def test_another_model_is_not_found(client: openai.OpenAI) -> None:
    for ask in (
        lambda: client.embeddings.create(model="text-embedding-3-small", input="x"),
        lambda: client.models.retrieve("text-embedding-3-small"),
    ):
        with pytest.raises(openai.NotFoundError) as unknown:
            ask()
        assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")


def test_a_wrong_key_and_a_long_queue_have_their_exceptions(guarded: Server, busy: Busy) -> None:
    with connect(guarded, "wrong") as stranger, pytest.raises(openai.AuthenticationError) as wrong:
        stranger.embeddings.create(model=DEFAULT, input="x")
    assert wrong.value.code == "invalid_api_key"
    assert "Incorrect API key provided" in wrong.value.message
    with connect(guarded, "secret") as client:
        assert client.embeddings.create(model=DEFAULT, input="x").data
        with busy(), pytest.raises(openai.RateLimitError) as refused:
            client.embeddings.create(model=DEFAULT, input=MANY)
    assert (refused.value.code, refused.value.type) == ("overloaded", "rate_limit_error")
    assert int(refused.value.response.headers["retry-after"]) >= 1


def test_the_client_waits_and_tries_again(guarded: Server, busy: Busy) -> None:
    with connect(guarded, "secret") as client, busy():
        patient = client.with_options(max_retries=10)
        assert patient.embeddings.create(model=DEFAULT, input=MANY).data


def test_a_suffix_of_the_model_tells_the_role(prompted: Server) -> None:
    with connect(prompted) as client:
        for suffix, prompt in (("-query", "query: "), ("-passage", "passage: "), ("", "")):
            found = client.embeddings.create(model=f"tiny{suffix}", input="red")
            same = client.embeddings.create(model="tiny", input=f"{prompt}red")
            assert found.data == same.data and found.model == "tiny"
