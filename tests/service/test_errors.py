"""What is told of a body that is wrong."""

import pytest
from pydantic import ValidationError

from service.api.embed import EmbedRequest
from service.api.similarity import SimilarityRequest
from service.errors import explain


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
