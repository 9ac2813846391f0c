"""Requests of the Python clients."""

from typing import Any

import orjson
import pytest

from embedwell.routes.common.body import Body
from embedwell.routes.common.dense_vectors import EmbedRequest
from embedwell.routes.embed_sparse import SparseRequest
from embedwell.routes.similarity_bodies import SimilarityRequest
from embedwell.routes.tokens import TokensRequest
from embedwell_client import request_builders
from embedwell_client.errors import RequestFailed
from embedwell_client.request_builders import (
    EmbedOptions,
    SimilarityOptions,
    SparseOptions,
    TokensOptions,
)

TEI = {"truncate", "truncation_direction"}  # on_overflow replaces them
LIMITS = {"max_texts": 9, "max_tokens": 999, "max_body_bytes": 999}
NOT_OFFERED = TEI | {
    "inputs",
    "details",
    "partial",
    "outputs",
    "pool_factor",  # of vectors of tokens
    "encoding_format",
    "layout",
    "parameters",
    "options",
    *("wait_for_model", "use_cache", "use_gpu"),  # of Hugging Face's clients, and not used
    "a",
    "b",
}


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (EmbedOptions, EmbedRequest),
        (SparseOptions, SparseRequest),
        (TokensOptions, TokensRequest),
        (SimilarityOptions, SimilarityRequest),
    ],
)
def test_the_options_match_the_fields_of_the_route(options: Any, body: type[Body]) -> None:
    assert set(options.__annotations__) == body.model_fields.keys() - NOT_OFFERED


def batches(texts: list[Any], batch: int, **limits: int) -> list[list[Any]]:
    limits = LIMITS | limits
    sent = list(request_builders.build_embed_requests(texts, {}, limits, batch))
    inputs_sent = [orjson.loads(request.body)["inputs"] for request in sent]
    assert [request.num_inputs for request in sent] == [len(inputs) for inputs in inputs_sent]
    assert [request.first_index for request in sent] == [
        sum(request.num_inputs for request in sent[:index]) for index in range(len(sent))
    ]
    max_body_bytes = limits["max_body_bytes"]
    assert all(len(request.body) <= max_body_bytes or request.num_inputs == 1 for request in sent)
    return inputs_sent


def test_batches_are_limited_by_their_size_and_the_servers_limits() -> None:
    texts = ["a", "b", "c", "d", "e"]
    assert batches(texts, 2) == [["a", "b"], ["c", "d"], ["e"]]
    assert batches(texts, 5) == [texts]
    assert batches(texts, 5, max_texts=4) == [texts[:4], texts[4:]]
    assert batches(texts, 5, max_body_bytes=len('{"inputs":["a","b"]}')) == batches(texts, 2)
    assert batches(texts, 5, max_tokens=7) == batches(texts, 2)
    assert batches([[1, 2], [3]], 1) == [[[1, 2]], [[3]]]


def test_an_input_larger_than_the_limit_is_sent_alone() -> None:
    texts = ["a", "é" * 40, "b", "c"]
    assert batches(texts, 9, max_body_bytes=40) == [texts[:1], texts[1:2], texts[2:]]


def test_an_empty_list_is_sent_to_the_server() -> None:
    assert batches([], 9) == [[]]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [("ab", ["ab"]), (("a", "b"), ["a", "b"]), ([1, 2], [[1, 2]]), ([[1], [2]], [[1], [2]])],
)
def test_a_single_input_becomes_a_list(inputs: Any, expected: list[Any]) -> None:
    assert request_builders.as_list(inputs) == expected


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (b"abc", "bytes are neither a text nor token ids"),
        (bytearray(b"abc"), "bytes are neither a text nor token ids"),
        (["a", b"abc"], "input 1: bytes are neither a text nor token ids"),
        ([bytearray(b"abc")], "input 0: bytes are neither a text nor token ids"),
    ],
)
def test_bytes_are_refused_as_inputs(inputs: Any, message: str) -> None:
    with pytest.raises(TypeError, match=f"^{message}; decode them$"):
        request_builders.as_list(inputs)


def test_nothing_is_refused_as_inputs() -> None:
    inputs: Any = None
    with pytest.raises(TypeError, match="texts are a str or a list of str, not None"):
        request_builders.as_list(inputs)


@pytest.mark.parametrize("options", [{}, {"late_chunking": True}])
def test_the_error_of_a_text_that_cannot_be_encoded_has_its_index(
    options: EmbedOptions,
) -> None:
    with pytest.raises(RequestFailed, match=r"^input 3 cannot be sent: .*surrogates") as raised:
        list(
            request_builders.build_embed_requests(
                ["a", "b", "c", "half \ud83d", "e"], options, LIMITS, 2
            )
        )
    assert (raised.value.status, raised.value.code) == (None, "invalid_request")
    assert raised.value.index == 3


def test_other_requests_that_cannot_be_encoded_are_errors() -> None:
    for build in (
        lambda: request_builders.build_tokens_request(["half \ud83d"], {}),
        lambda: request_builders.build_similarity_request("a", "half \ud83d", {}),
    ):
        with pytest.raises(RequestFailed, match=r"^the request cannot be sent: .*surrogates"):
            build()
