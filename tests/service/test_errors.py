"""What is told of a body that is wrong."""

import pytest
from pydantic import ValidationError

from service.api.embed import EmbedRequest
from service.api.similarity import SimilarityRequest
from service.errors import (
    BadRequest,
    EngineLost,
    Overloaded,
    ServiceError,
    TooLarge,
    Unauthorized,
    UnknownModel,
    describe,
    explain,
)


@pytest.mark.parametrize("name", ["<b>", "<text>", "<", "normalise"])
def test_an_unknown_field_is_named_as_it_was_sent(name: str) -> None:
    with pytest.raises(ValidationError) as found:
        EmbedRequest.model_validate({"inputs": "a", name: 1})
    told = explain(found.value)
    assert (told.message, told.param) == (f"unknown field {name!r}", name)
    with pytest.raises(ValidationError) as found:
        SimilarityRequest.model_validate({"inputs": {"source_sentence": "a", name: 1}})
    assert explain(found.value).param == f"inputs.{name}"


def test_the_branches_of_a_union_are_not_named() -> None:
    with pytest.raises(ValidationError) as found:
        EmbedRequest.model_validate({"inputs": ["a", [1, "b"]]})
    told = explain(found.value)
    assert told.message.startswith("inputs.1.1: ") and (told.param, told.index) == ("inputs", 1)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadRequest("no"), "invalid_request_error"),
        (Unauthorized("no"), "invalid_request_error"),
        (UnknownModel("no"), "invalid_request_error"),
        (TooLarge("no"), "invalid_request_error"),
        (Overloaded("later", retry=1), "rate_limit_error"),
        (EngineLost("later", retry=1), "server_error"),
    ],
)
def test_the_type_tells_a_wrong_request_from_one_that_may_come_again(
    error: ServiceError, kind: str
) -> None:
    assert describe(error)["type"] == kind
