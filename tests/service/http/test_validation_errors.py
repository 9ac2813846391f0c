"""Errors of invalid requests."""

import json

import orjson
import pytest
from pydantic import ValidationError

from embedwell.http.error_responses import (
    OPENAI,
    respond,
    to_service_error,
)
from embedwell.http.validation_errors import invalid_body
from embedwell.routes.cohere import CohereRequest
from embedwell.routes.common.body import Body
from embedwell.routes.common.dense_vectors import EmbedRequest
from embedwell.routes.positions import PositionsRequest
from embedwell.routes.similarity_bodies import SimilarityRequest
from embedwell.routes.tokenize import DecodeRequest
from embedwell.routes.tokens import TokensRequest
from embedwell_vendors.embeddings import EmbeddingsRequest


@pytest.mark.parametrize("name", ["<b>", "<text>", "<", "normalise"])
def test_the_error_of_an_unknown_field_has_its_exact_name(name: str) -> None:
    with pytest.raises(ValidationError) as raised:
        EmbedRequest.model_validate({"inputs": "a", name: 1})
    error = to_service_error(raised.value)
    assert (error.message, error.param) == (f"unknown field {name!r}", name)
    with pytest.raises(ValidationError) as raised:
        SimilarityRequest.model_validate({"inputs": {"source_sentence": "a", name: 1}})
    assert to_service_error(raised.value).param == f"inputs.{name}"


@pytest.mark.parametrize(
    ("body", "content", "message"),
    [
        (
            EmbedRequest,
            {"inputs": "a", "options": {"wait": True}},
            "'options.wait'; the fields are wait_for_model, use_cache, use_gpu",
        ),
        (
            SimilarityRequest,
            {"inputs": {"sentence": ["b"]}},
            "'inputs.sentence'; did you mean 'sentences'? GET /docs describes all fields",
        ),
        (
            EmbedRequest,
            {"inputs": {"image": "a", "detail": "low"}},
            "'inputs.detail'; the fields are image",
        ),
        (EmbedRequest, {"inputs": [{"image": "a", "detail": "low"}]}, "'inputs.0.detail'"),
    ],
)
def test_the_error_of_an_unknown_field_names_a_similar_one_or_lists_those_of_its_object(
    body: type[Body], content: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        body.model_validate(content)
    assert invalid_body(raised.value, body, body.input_fields).message == f"unknown field {message}"


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("input", "inputs"),
        ("inptus", "inputs"),
        ("normalise", "normalize"),
        ("truncat", "truncate"),
        ("promptname", "prompt_name"),
        ("outputtype", "output_dtype"),
        ("moddel", "model"),
        ("frobnicate", None),
        ("instruction", None),
        ("characters", None),
        ("positions", None),
        ("zzz", None),
        ("i", None),
        ("inputs" * 5000, None),
    ],
)
def test_a_field_is_suggested_for_a_misspelling_of_it_alone(name: str, field: str | None) -> None:
    with pytest.raises(ValidationError) as raised:
        EmbedRequest.model_validate({"inputs": "a", name: 1})
    message = invalid_body(raised.value, EmbedRequest, EmbedRequest.input_fields).message
    assert ("; the fields are " if field is None else f"; did you mean {field!r}?") in message


def test_openais_format_lists_fields_once() -> None:
    with pytest.raises(ValidationError) as raised:
        EmbedRequest.model_validate({"inputs": "a", "options": {"zzz": 1}})
    error = invalid_body(raised.value, EmbedRequest, EmbedRequest.input_fields)
    content = orjson.loads(respond(error, "1", OPENAI).body)
    assert content["error"]["message"] == error.message
    assert content["message"] == content["detail"]
    assert content["detail"] == "unknown field 'options.zzz'; error.message lists the fields"
    of_voyage = orjson.loads(respond(error, "1", OPENAI, b"Voyage/1.0").body)
    assert of_voyage["detail"] == error.message


def test_the_error_does_not_name_branches_of_a_union() -> None:
    with pytest.raises(ValidationError) as raised:
        EmbedRequest.model_validate({"inputs": ["a", [1, "b"]]})
    error = invalid_body(raised.value, EmbedRequest, EmbedRequest.input_fields)
    assert error.message.startswith("inputs.1.1: ") and (error.param, error.index) == ("inputs", 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"inputs": [["a query", "a text"]]}, "inputs.0.0: Input should be a token id, a number"),
        ({"inputs": [101, "b"]}, "inputs.1: Input should be a token id, a number"),
        ({"inputs": "a", "truncate": "yes"}, "truncate: Input should be true or false"),
        ({"inputs": {"image": 5}}, "inputs.image: Input should be a text"),
        (
            {"inputs": {"content": [{"type": "img"}]}},
            "inputs.content.0: 'type' should be one of 'text', 'image_url', not 'img'",
        ),
        (
            {"inputs": {"content": [{"text": "a"}]}},
            "inputs.content.0: the field 'type' is missing",
        ),
    ],
)
def test_the_error_of_a_wrong_type_says_what_to_send(
    content: dict[str, object], message: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        EmbedRequest.model_validate_json(json.dumps(content))
    assert to_service_error(raised.value).message == message


COHERE = {"model": "m", "input_type": "clustering"}


@pytest.mark.parametrize(
    ("body", "content", "index"),
    [
        (EmbedRequest, {"inputs": ["a", 5]}, 1),
        (EmbedRequest, {"inputs": ["a", [1, "b"]]}, 1),
        (EmbedRequest, {"inputs": [101, 7592, "b"]}, 0),
        (EmbedRequest, {"inputs": 5}, None),
        (EmbeddingsRequest, {"input": ["a", 5]}, 1),
        (EmbeddingsRequest, {"input": "a", "modality": ["text", "audio"]}, None),
        (CohereRequest, {**COHERE, "texts": ["a", 5]}, 1),
        (CohereRequest, {**COHERE, "inputs": [{"content": []}]}, 0),
        (CohereRequest, {**COHERE, "texts": ["a"], "embedding_types": ["float", "x"]}, None),
        (DecodeRequest, {"ids": [[1], [-1]]}, 1),
        (DecodeRequest, {"ids": [1, -1]}, 0),
        (SimilarityRequest, {"inputs": {"source_sentence": "a", "sentences": ["b", 5]}}, 1),
        (SimilarityRequest, {"a": "a", "b": ["b", 5]}, 1),
        (SimilarityRequest, {"a": [[1.0], ["x"]], "b": "b"}, 1),
        (TokensRequest, {"chunks": [["a"], ["b", 5]]}, 1),
        (TokensRequest, {"inputs": ["a", "b"], "spans": [[[0, 1]], [[0, "x"]]]}, 1),
        (PositionsRequest, {"positions": [0, "x"]}, None),
    ],
)
def test_the_error_has_the_index_of_the_input_if_there_is_one(
    body: type[Body], content: dict[str, object], index: int | None
) -> None:
    with pytest.raises(ValidationError) as raised:
        body.model_validate_json(json.dumps(content))
    assert invalid_body(raised.value, body, body.input_fields).index == index
