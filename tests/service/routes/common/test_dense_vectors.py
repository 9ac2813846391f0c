"""Tests of the request to which every API converts its own."""

from embedwell.routes.common.dense_vectors import EmbedRequest
from embedwell.routes.common.options import InputBody


def test_the_options_of_a_body_are_handed_on_as_the_architecture_page_says() -> None:
    body = InputBody(prompt="query: ", on_overflow="start", model="small")
    request = EmbedRequest.of_inputs(["a"], body, normalize=False)
    assert request.input_options() == body.input_options()
    assert (request.inputs, request.normalize, request.model) == (["a"], False, None)


def test_a_single_text_is_one_input() -> None:
    assert EmbedRequest.of_inputs("text").inputs == ["text"]
