"""vLLM's API: /pooling, /detokenize, and the fields that its clients send to other routes."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.models.cross_encoder import write_cross_encoder
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.routes.committed import check
from tests.service.server import HttpServer, Server

TEXTS = ["red", "a longer text"]
IGNORED = {"user": "someone", "request_id": "r", "cache_salt": "s", "priority": 0}
LABELS = {0: "no", 1: "yes", 2: "maybe"}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    folder: Path = write_cross_encoder(tmp_path_factory.mktemp("labels"), 3, id2label=LABELS)
    with local_server(folder, served_name="small") as server:
        yield server


def pooled(server: HttpServer, **body: Any) -> list[Any]:
    response = server.post("/pooling", body)
    check(response, "post", "/pooling")
    return [item["data"] for item in response.json()["data"]]


def test_the_task_embed_gives_the_vectors_of_texts(server: Server) -> None:
    expected = vectors(server.post("/embed", {"inputs": TEXTS}))
    actual = np.array(pooled(server, input=TEXTS, task="embed"), dtype=np.float32)
    np.testing.assert_array_equal(actual, expected)
    encoded = pooled(server, input=TEXTS, task="embed", encoding_format="base64")
    decoded = [np.frombuffer(base64.b64decode(item), dtype=np.float32) for item in encoded]
    np.testing.assert_array_equal(decoded, expected)


def test_the_default_task_gives_unit_vectors_of_the_tokens(server: Server) -> None:
    body = {"input": TEXTS[0], "return_multivector": True}
    [expected] = server.post("/v1/embeddings", body).json()["data"]
    [states] = pooled(server, input=TEXTS[0])
    assert states == expected["embeddings"] == pooled(server, input=TEXTS[0], task="token_embed")[0]
    np.testing.assert_allclose(np.linalg.norm(states, axis=1), 1, atol=1e-6)
    [raw] = pooled(server, input=TEXTS[0], use_activation=False)
    np.testing.assert_allclose(raw / np.linalg.norm(raw, axis=1, keepdims=True), states, atol=1e-6)
    [encoded] = pooled(server, input=TEXTS[0], encoding_format="base64")
    flat = np.frombuffer(base64.b64decode(encoded), dtype=np.float32)
    np.testing.assert_array_equal(flat, np.array(states, dtype=np.float32).ravel())


def test_a_classifier_gives_the_scores_of_its_labels(classifier: HttpServer) -> None:
    data = classifier.post("/classify", {"input": TEXTS}).json()["data"]
    scores = [item["probs"] for item in data]
    np.testing.assert_allclose(pooled(classifier, input=TEXTS), scores, rtol=1e-6)
    raw = classifier.post("/classify", {"input": TEXTS, "use_activation": False}).json()["data"]
    logits = [item["probs"] for item in raw]
    by_pooling = pooled(classifier, input=TEXTS, use_activation=False)
    np.testing.assert_allclose(by_pooling, logits, rtol=1e-6)
    assert not np.allclose(logits, scores)


@pytest.mark.parametrize("task", ["classify", "token_classify", "plugin"])
def test_a_task_that_the_model_lacks_is_refused(server: Server, task: str) -> None:
    response = server.post("/pooling", {"input": "x", "task": task})
    refused = error(response, 400)
    assert refused["message"].startswith(
        f"Unsupported task: {task!r}; the model 'all-MiniLM-L6-v2'"
    )
    fields = {name: refused[name] for name in ("type", "param", "code")}
    assert fields == {"type": "BadRequestError", "param": "task", "code": "not_offered"}


def test_messages_are_embedded_and_classified_as_their_text(
    server: Server, classifier: HttpServer
) -> None:
    messages = [{"role": "user", "content": TEXTS[0]}]
    by_message = pooled(server, messages=messages, task="embed")
    assert by_message == pooled(server, input=TEXTS[0], task="embed")
    data = classifier.post("/classify", {"messages": messages}).json()["data"]
    assert data == classifier.post("/classify", {"input": TEXTS[0]}).json()["data"]
    reply = {"role": "assistant", "content": ""}
    asked = {"role": "system", "content": "Find it."}
    for others in ([*messages, reply], [asked, *messages], [reply], []):
        body: dict[str, Any] = {"messages": others}
        for response in (server.post("/pooling", body), classifier.post("/classify", body)):
            assert "reads no conversations" in error(response, 400)["message"]
    for field in ("add_generation_prompt", "continue_final_message"):
        body = {"messages": messages, field: True}
        assert error(server.post("/pooling", body), 400)["param"] == field
        pooled(server, **body | {field: False}, task="embed")
    for body in ({}, {"input": "x", "messages": messages}):
        assert error(classifier.post("/classify", body), 400)["param"] in ("input", "messages")


def test_a_text_is_tokenized_and_decoded_in_the_format_of_vllm(server: Server) -> None:
    [expected] = server.post("/tokenize", {"inputs": TEXTS[1]}).json()
    tokens = server.post("/tokenize", {"prompt": TEXTS[1], "return_token_strs": True}).json()
    assert tokens == {
        "count": len(expected),
        "max_model_len": 256,
        "tokens": [token["id"] for token in expected],
        "token_strs": [token["text"] for token in expected],
    }
    plain = server.post("/tokenize", {"prompt": TEXTS[1], "add_special_tokens": False}).json()
    assert plain["tokens"] == tokens["tokens"][1:-1] and plain["token_strs"] is None
    assert error(server.post("/tokenize", {}), 400)["param"] == "inputs"
    decoded = server.post("/detokenize", {"tokens": plain["tokens"]})
    check(decoded, "post", "/detokenize")
    assert decoded.json() == {"prompt": TEXTS[1]}


@pytest.mark.parametrize(
    ("side", "overflow"), [("left", "start"), ("right", "end")], ids=["left", "right"]
)
def test_the_side_of_truncation_may_be_chosen(server: Server, side: str, overflow: str) -> None:
    text = " ".join(f"word{i}" for i in range(300))
    expected = server.post("/v1/embeddings", {"input": text, "truncate": overflow.upper()}).json()
    body = {"input": text, "truncation_side": side}
    assert server.post("/v1/embeddings", body).json()["data"] == expected["data"]
    limited = server.post("/v1/embeddings", {**body, "truncate_prompt_tokens": 256}).json()
    assert limited["data"] == expected["data"]
    [vector] = pooled(server, input=text, task="embed", truncation_side=side)
    assert vector == expected["data"][0]["embedding"]
    refused = server.post("/v1/embeddings", {**body, "truncation": True})
    assert refused.status_code == 400


def test_fields_without_an_effect_here_are_accepted(server: Server, classifier: HttpServer) -> None:
    plain = server.post("/v1/embeddings", {"input": "x"}).json()["data"]
    fields = {**IGNORED, "use_activation": True, "embed_dtype": "float32", "endianness": "native"}
    assert server.post("/v1/embeddings", {"input": "x", **fields}).json()["data"] == plain
    for path, body in (
        ("/score", {"text_1": "a", "text_2": "b"}),
        ("/rerank", {"query": "a", "documents": ["b"]}),
        ("/tokenize", {"prompt": "a"}),
        ("/detokenize", {"tokens": [2417]}),
        ("/pooling", {"input": "a"}),
    ):
        assert server.post(path, {**body, **IGNORED}).is_success, path
    assert classifier.post("/classify", {"input": "a", **IGNORED}).is_success
    refused = error(server.post("/v1/embeddings", {"input": "x", "priority": 1}), 400)
    assert refused["param"] == "priority"


TYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


@pytest.mark.parametrize("endianness", ["native", "little", "big"])
@pytest.mark.parametrize("dtype", TYPES)
def test_base64_and_bytes_may_have_other_numbers(
    server: Server, dtype: str, endianness: str
) -> None:
    body = {"input": "x", "encoding_format": "base64"}
    body |= {"embed_dtype": dtype, "endianness": endianness}
    [item] = server.post("/v1/embeddings", body).json()["data"]
    [full] = server.post("/v1/embeddings", {"input": "x"}).json()["data"]
    expected = torch.tensor(full["embedding"]).to(TYPES[dtype])
    order, size = ">" if endianness == "big" else "<", expected.itemsize
    bits = expected.view(BITS[size]).numpy().view(f"u{size}").astype(f"{order}u{size}").tobytes()
    assert base64.b64decode(item["embedding"]) == bits
    assert pooled(server, **body, task="embed") == [item["embedding"]]
    for path, fields in (("/v1/embeddings", {}), ("/pooling", {"task": "embed"})):
        body["encoding_format"] = "bytes_only"
        assert server.post(path, {**body, **fields}).content == bits
        body["encoding_format"] = "float"
        status = 200 if dtype == "float32" and order == "<" else 400
        assert server.post(path, {**body, **fields}).status_code == status


def test_a_response_of_bytes_says_where_each_result_is(server: Server) -> None:
    body = {"input": TEXTS, "encoding_format": "bytes", "embed_dtype": "float16"}
    response = server.post("/pooling", {**body, "endianness": "big"})
    assert response.headers["content-type"] == "application/octet-stream"
    metadata = json.loads(response.headers["metadata"])
    plain = server.post("/pooling", {"input": TEXTS}).json()
    assert metadata["usage"] == plain["usage"] and metadata["model"] == plain["model"]
    assert metadata["id"] == response.headers["x-request-id"] and metadata["created"] > 0
    start = 0
    for index, (place, result) in enumerate(zip(metadata["data"], plain["data"], strict=True)):
        states = np.array(result["data"], ">f2")
        numbers = {"embed_dtype": "float16", "endianness": "big", "shape": [*states.shape]}
        assert place == {"index": index, "start": start, "end": start + states.nbytes, **numbers}
        assert response.content[start : place["end"]] == states.tobytes()
        start = place["end"]
    assert start == len(response.content)
    vectors_response = server.post("/v1/embeddings", {**body, "encoding_format": "bytes"})
    shapes = [place["shape"] for place in json.loads(vectors_response.headers["metadata"])["data"]]
    assert shapes == [[384]] * 2


@pytest.mark.parametrize("field", [{"output_dtype": "int8"}, {"return_multivector": True}])
def test_bytes_are_not_combined_with_fields_of_other_numbers(
    server: Server, field: dict[str, object]
) -> None:
    response = server.post("/v1/embeddings", {"input": "x", "encoding_format": "bytes", **field})
    assert error(response, 400)["param"] in field


def test_pairs_may_have_any_of_the_names_of_vllm(server: Server) -> None:
    expected = server.post("/score", {"text_1": "a", "text_2": TEXTS}).json()["data"]
    for names in (("data_1", "data_2"), ("queries", "items"), ("queries", "documents")):
        body = dict(zip(names, ("a", TEXTS), strict=True))
        assert server.post("/score", body).json()["data"] == expected
    twice = {"text_1": "a", "text_2": "b", "items": "c"}
    assert error(server.post("/score", twice), 400)["param"] == "text_2"
