"""The official clients of OpenAI and Hugging Face against a running server."""

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import openai
import pytest

from models import Embedder
from models.sources import DEFAULT
from tests.service.server import Server

TEXTS = ["A first text.", "Ein zweiter Text."]


@pytest.fixture(scope="module")
def client(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0)


def test_openai_gets_the_vectors_in_its_default_base64_and_as_floats(
    client: openai.OpenAI, embedder: Embedder
) -> None:
    expected = embedder.embed(TEXTS)
    for answer in (
        client.embeddings.create(model=DEFAULT, input=TEXTS),
        client.embeddings.create(model=DEFAULT, input=TEXTS, encoding_format="float"),
    ):
        found = np.array([row.embedding for row in answer.data], dtype=np.float32)
        np.testing.assert_array_equal(found, expected)
        assert [row.index for row in answer.data] == [0, 1]
        assert answer.model == DEFAULT and answer.object == "list"
        assert answer.usage.prompt_tokens == answer.usage.total_tokens == 6 + 8


def test_openai_sends_token_ids(client: openai.OpenAI, embedder: Embedder) -> None:
    ids = embedder.tokenize(TEXTS)[0].ids
    for given in (ids, [ids]):
        answer = client.embeddings.create(model=DEFAULT, input=given, user="someone")
        np.testing.assert_array_equal(
            np.array([answer.data[0].embedding], dtype=np.float32), embedder.embed(TEXTS[:1])
        )


def test_openai_asks_for_dimensions(cutting: Server) -> None:
    client = openai.OpenAI(base_url=f"{cutting.url}/v1", api_key="unused", max_retries=0)
    short = client.embeddings.create(model=DEFAULT, input="x", dimensions=32).data[0].embedding
    assert len(short) == 32 and abs(np.linalg.norm(short) - 1) < 1e-6


def test_openai_understands_the_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.embeddings.create(model="text-embedding-3-small", input="x")
    assert unknown.value.code == "model_not_found" and unknown.value.param == "model"
    with pytest.raises(openai.BadRequestError, match="unknown field 'surprise'"):
        client.embeddings.create(model=DEFAULT, input="x", extra_body={"surprise": 1})


def test_openai_lists_the_model(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [DEFAULT]
    assert client.models.retrieve(DEFAULT).id == DEFAULT


def hugging_face(url: str, call: str) -> Any:
    """What the official client answers, in a process where it may reach servers."""
    code = (
        "import json; from huggingface_hub import InferenceClient; "
        f"answer = InferenceClient({url!r}).{call}; "
        "print(json.dumps(answer, default=lambda array: array.tolist()))"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "0"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_hugging_face_extracts_features(server: Server, embedder: Embedder) -> None:
    call = f"feature_extraction({TEXTS[0]!r}, normalize=True, truncate=True)"
    found = np.array(hugging_face(server.url, call), dtype=np.float32)
    np.testing.assert_array_equal(found, embedder.embed(TEXTS[:1]))


def test_hugging_face_compares_sentences(server: Server, embedder: Embedder) -> None:
    call = f"sentence_similarity({TEXTS[0]!r}, other_sentences={TEXTS!r})"
    found = hugging_face(f"{server.url}/similarity", call)
    vectors = embedder.embed(TEXTS)
    np.testing.assert_allclose(found, vectors[0] @ vectors.T, atol=1e-6)
