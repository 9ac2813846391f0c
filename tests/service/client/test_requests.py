"""What the clients in Python ask."""

from typing import Any

import orjson
import pytest

from service.api.body import Body
from service.api.embed import EmbedRequest
from service.api.similarity_request import SimilarityRequest
from service.api.tokens_request import TokensRequest
from service.client import requests
from service.client.errors import RequestFailed
from service.client.requests import EmbedOptions, SimilarityOptions, TokensOptions

TEI = {"truncate", "truncation_direction"}  # on_overflow says it
LIMITS = {"max_texts": 9, "max_tokens": 999, "max_body_bytes": 999}
OURS = TEI | {
    "inputs",
    "details",
    "partial",
    "encoding_format",
    "layout",
    "parameters",
    "options",
    "a",
    "b",
}


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (EmbedOptions, EmbedRequest),
        (TokensOptions, TokensRequest),
        (SimilarityOptions, SimilarityRequest),
    ],
)
def test_the_options_are_the_fields_of_the_route(options: Any, body: type[Body]) -> None:
    assert set(options.__annotations__) == body.model_fields.keys() - OURS


def parts(texts: list[Any], batch: int, **limits: int) -> list[list[Any]]:
    known = LIMITS | limits
    found = list(requests.embed(texts, {}, known, batch))
    listed = [orjson.loads(asked.body)["inputs"] for asked in found]
    assert [asked.count for asked in found] == [len(part) for part in listed]
    assert [asked.first for asked in found] == [
        sum(asked.count for asked in found[:place]) for place in range(len(found))
    ]
    most = known["max_body_bytes"]
    assert all(len(asked.body) <= most or asked.count == 1 for asked in found)
    return listed


def test_batches_end_at_the_number_of_texts_and_at_the_limits() -> None:
    texts = ["a", "b", "c", "d", "e"]
    assert parts(texts, 2) == [["a", "b"], ["c", "d"], ["e"]]
    assert parts(texts, 5) == [texts]
    assert parts(texts, 5, max_texts=4) == [texts[:4], texts[4:]]
    assert parts(texts, 5, max_body_bytes=len('{"inputs":["a","b"]}')) == parts(texts, 2)
    assert parts(texts, 5, max_tokens=7) == parts(texts, 2)
    assert parts([[1, 2], [3]], 1) == [[[1, 2]], [[3]]]


def test_an_input_that_is_too_large_goes_alone() -> None:
    assert parts(["a", "é" * 40, "b", "c"], 9, max_body_bytes=40) == [["a"], ["é" * 40], ["b", "c"]]


def test_no_input_is_asked_too() -> None:
    assert parts([], 9) == [[]]


@pytest.mark.parametrize(
    ("given", "expected"),
    [("ab", ["ab"]), (("a", "b"), ["a", "b"]), ([1, 2], [[1, 2]]), ([[1], [2]], [[1], [2]])],
)
def test_one_input_is_told_from_several(given: Any, expected: list[Any]) -> None:
    assert requests.as_list(given) == expected


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (b"abc", "bytes are neither a text nor token ids"),
        (bytearray(b"abc"), "bytes are neither a text nor token ids"),
        (["a", b"abc"], "input 1: bytes are neither a text nor token ids"),
        ([bytearray(b"abc")], "input 0: bytes are neither a text nor token ids"),
    ],
)
def test_bytes_are_not_taken_for_token_ids(given: Any, told: str) -> None:
    with pytest.raises(TypeError, match=f"^{told}: decode them$"):
        requests.as_list(given)


@pytest.mark.parametrize("options", [{}, {"late_chunking": True}])
def test_a_text_that_no_request_can_carry_is_a_failure_with_its_place(
    options: EmbedOptions,
) -> None:
    with pytest.raises(RequestFailed, match=r"^input 3 cannot be sent: .*surrogates") as failed:
        list(requests.embed(["a", "b", "c", "half \ud83d", "e"], options, LIMITS, 2))
    assert (failed.value.status, failed.value.code) == (None, "invalid_request")
    assert failed.value.index == 3


def test_other_requests_that_cannot_be_sent_are_failures_too() -> None:
    for ask in (
        lambda: requests.tokens(["half \ud83d"], {}),
        lambda: requests.similarity("a", "half \ud83d", {}),
    ):
        with pytest.raises(RequestFailed, match=r"^the request cannot be sent: .*surrogates"):
            ask()
