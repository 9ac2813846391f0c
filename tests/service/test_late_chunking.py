"""Late chunking on /embed and /tokens, against the library's hidden states."""

from itertools import chain
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.errors import InputError
from embedwell_models.read.spans import SpanPooling
from embedwell_models.vectors import normalize
from tests.conftest import Folder
from tests.service.local_server import local_server
from tests.service.responses import error, vectors
from tests.service.server import HttpServer

CHUNKS = ["Berlin is the capital of Germany.", "Its inhabitants like it,", "for it is large."]


def test_a_chunk_is_the_mean_of_its_tokens_computed_with_all_others(
    server: HttpServer, embedder: Embedder
) -> None:
    parts = [row[1:-1] for row in embedder.tokenize(CHUNKS)]
    states = embedder.hidden([[101, *chain(*parts), 102]])[0][1:-1]
    borders = np.cumsum([len(part) for part in parts])[:-1]
    means = np.stack([part.mean(axis=0) for part in np.split(states, borders)])
    body = {"inputs": CHUNKS, "late_chunking": True}
    response = vectors(server.post("/embed", body))
    np.testing.assert_allclose(response, normalize(means), atol=1e-6)
    assert np.abs(response - embedder.embed(CHUNKS)).max() > 0.01
    results = server.post("/tokens", {"chunks": [CHUNKS, CHUNKS[:1]]}).json()["results"]
    chunked = [chunk["embedding"] for chunk in results[0]["chunks"]]
    np.testing.assert_allclose(np.array(chunked), means, atol=1e-5)
    assert len(results[1]["chunks"]) == 1


@pytest.mark.parametrize("options", [{}, {"prompt": "text: "}, {"on_overflow": "end"}])
def test_the_library_chunks_as_the_server_does(
    server: HttpServer, embedder: Embedder, options: dict[str, Any]
) -> None:
    body = {"inputs": CHUNKS, "late_chunking": True, **options}
    actual = embedder.embed(CHUNKS, late_chunking=True, **options)
    assert actual.tobytes() == vectors(server.post("/embed", body)).tobytes()


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_the_library_pools_spans_as_the_server_does(
    server: HttpServer, embedder: Embedder, pooling: SpanPooling
) -> None:
    spans = [[(0, 6), (14, 21)], [], [(0, 3)]]
    body = {"inputs": CHUNKS, "spans": spans, "pooling": pooling}
    results = server.post("/tokens", body).json()["results"]
    actual = embedder.embed_spans(CHUNKS, spans, pooling=pooling, budget=12)
    assert [len(each) for each in actual] == [2, 0, 1]
    for each, result in zip(actual, results, strict=True):
        expected = np.array([span["embedding"] for span in result["spans"]], dtype=np.float32)
        assert each.tobytes() == expected.tobytes()


def test_the_library_refuses_spans_with_the_servers_message(
    server: HttpServer, embedder: Embedder
) -> None:
    for spans in ([[(6, 7)]], [[(0, 99)]], [], [[(0, 6)], []]):
        response = server.post("/tokens", {"inputs": CHUNKS[:1], "spans": spans})
        with pytest.raises(InputError) as raised:
            embedder.embed_spans(CHUNKS[:1], spans)
        expected = error(response, 400)
        assert (str(raised.value), raised.value.code) == (expected["message"], expected["code"])


def test_the_prompt_belongs_to_no_chunk(server: HttpServer, embedder: Embedder) -> None:
    prompt = embedder.tokenize(["passage:"])[0][:-1]
    part = embedder.tokenize(CHUNKS[:1])[0][1:]
    mean = embedder.hidden([[*prompt, *part]])[0][len(prompt) : -1].mean(axis=0)
    body = {"inputs": CHUNKS[:1], "late_chunking": True, "prompt": "passage: "}
    response = vectors(server.post("/embed", body))
    np.testing.assert_allclose(response, normalize(mean[None]), atol=1e-6)


def test_details_contain_the_tokens_of_each_chunk_and_of_all(server: HttpServer) -> None:
    body = {"inputs": CHUNKS, "late_chunking": True, "details": True}
    response = server.post("/embed", body).json()
    tokens = [row["tokens"] for row in response["inputs"]]
    assert response["usage"] == {"texts": 3, "tokens": sum(tokens) + 2}


LONG = ["word " * 100, "next " * 100, "then " * 100, "last " * 100]


@pytest.mark.parametrize(
    ("side", "expected_tokens"), [("end", [100, 100, 54, None]), ("start", [None, 54, 100, 100])]
)
def test_chunks_beyond_the_models_length_are_cut_or_errors(
    server: HttpServer, side: str, expected_tokens: list[int | None]
) -> None:
    body = {"inputs": LONG, "late_chunking": True, "on_overflow": side}
    response = server.post("/embed", {**body, "partial": True}).json()
    for index, (result, tokens) in enumerate(
        zip(response["results"], expected_tokens, strict=True)
    ):
        if tokens is None:
            assert (result["error"]["code"], result["error"]["index"]) == ("chunk_cut_off", index)
        else:
            assert (result["tokens"], result["dropped"]) == (tokens, 100 - tokens)
    assert error(server.post("/embed", body), 400)["index"] == expected_tokens.index(None)
    fitting = [text for text, tokens in zip(LONG, expected_tokens, strict=True) if tokens]
    same = server.post("/embed", {**body, "inputs": fitting, "details": True}).json()
    assert [row["tokens"] for row in same["inputs"]] == [
        tokens for tokens in expected_tokens if tokens
    ]
    vectors = [r["embedding"] for r in response["results"] if "embedding" in r]
    np.testing.assert_allclose(vectors, same["embeddings"], atol=1e-6)


def test_without_cutting_the_first_chunk_that_does_not_fit_is_named(server: HttpServer) -> None:
    body = {"inputs": LONG, "late_chunking": True, "on_overflow": "error"}
    response = error(server.post("/embed", body), 400)
    assert (response["code"], response["index"]) == ("input_too_long", 2)
    body = {"chunks": [["fits"], LONG], "on_overflow": "error"}
    response = error(server.post("/tokens", body), 400)
    assert (response["code"], response["index"], response["param"]) == (
        "input_too_long",
        1,
        "chunks",
    )
    assert "chunk 2" in response["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"inputs": [[101, 102], "text"]},
        {"inputs": ["a", ""]},
        {"inputs": ["a"], "on_overflow": "mean"},
        {"inputs": ["a"], "prompt": "long " * 300},
    ],
)
def test_inputs_that_cannot_be_chunked_are_refused(
    server: HttpServer, body: dict[str, object]
) -> None:
    assert error(server.post("/embed", {**body, "late_chunking": True}), 400)["message"]


def test_a_model_without_mean_pooling_has_no_late_chunking_on_embed(
    tiny_bert: Folder,
) -> None:
    path = "sentence_transformers.models"
    files = {
        "1_Pooling/config.json": {"pooling_mode": "cls"},
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": f"{path}.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{path}.Pooling"},
        ],
    }
    with local_server(tiny_bert(files)) as server:
        response = error(server.post("/embed", {"inputs": ["a"], "late_chunking": True}), 400)
        assert (response["code"], response["param"]) == ("not_offered", "late_chunking")
        assert server.post("/tokens", {"chunks": [["a"]]}).status_code == 200
