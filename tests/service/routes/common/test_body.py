"""Unknown fields of request bodies, fields of a wider type, and limits of their JSON."""

import json
import re
from typing import Any, Self

import pytest
from pydantic import ValidationError

from embedwell.errors import TooLarge
from embedwell.routes.cohere import CohereRequest
from embedwell.routes.common.body import JSON_LIMITS, Body, check_json_parts
from embedwell.routes.common.dense_vectors import EmbedRequest
from embedwell.routes.openai import OpenAIRequest
from embedwell.routes.rerank import PlainRerankRequest
from embedwell_vendors.embeddings import EmbeddingsRequest
from embedwell_vendors.rerank import RerankRequest


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (EmbedRequest, '{"inputs": "a", "surprise": null, "<texts>": null}'),
        (EmbeddingsRequest, '{"input": [{"text": "a", "id": null}, {"text": "b", "url": null}]}'),
        (RerankRequest, '{"query": "a", "documents": ["a", {"text": "b", "é": null}], "x": null}'),
        (
            CohereRequest,
            '{"model": "m", "input_type": "image", "inputs": [{"content": [{"type": "image_url",'
            ' "image_url": {"url": "u", "detail": null}}], "id": null}]}',
        ),
    ],
)
def test_an_unknown_field_that_is_null_counts_as_absent(kind: type[Body], text: str) -> None:
    without = re.sub(r', "[^"]+": null', "", text)
    body, expected = kind.parse(text.encode()), kind.parse(without.encode())
    assert without != text and body == expected
    assert body.model_fields_set == expected.model_fields_set


@pytest.mark.parametrize(
    "text",
    [
        '{"inputs": "a", "surprise": 1}',
        '{"inputs": "a", "other": null, "surprise": false}',
        '{"inputs": [{"image": "x", "other": null}, {"image": "y", "surprise": 1}]}',
    ],
)
def test_an_unknown_field_with_a_value_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="surprise") as raised:
        EmbedRequest.parse(text.encode())
    assert "other" not in str(raised.value)


@pytest.mark.parametrize("text", ['{"inputs": "a"}', '{"inputs": "a", "surprise": null}'])
def test_a_byte_order_mark_before_a_body_is_no_part_of_it(text: str) -> None:
    assert EmbedRequest.parse(text.encode("utf-8-sig")).inputs == "a"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (r"cut \ud83d", "cut \ufffd"),
        (r"\uDE00 cut", "\ufffd cut"),
        (r"\ude00\ud83d\ud83d\ude00", "\ufffd\ufffd\U0001f600"),
        (r"\\ud83d \ud83d\"", '\\ud83d \ufffd"'),
    ],
)
def test_half_a_surrogate_pair_is_read_as_a_replacement_character(text: str, read: str) -> None:
    body = OpenAIRequest.parse(f'{{"input": ["a", "{text}"], "surprise": null}}'.encode())
    assert body.input == ["a", read]


@pytest.mark.parametrize("rest", ["", "," + "[" * 40_000, ', "inputs": 1e', ', "b": "\udcff"}'])
def test_other_errors_of_json_remain_with_half_a_surrogate_pair(rest: str) -> None:
    with pytest.raises(ValidationError, match="Invalid JSON"):
        EmbedRequest.parse(rf'{{"inputs": "\ud83d"{rest}'.encode(errors="surrogateescape"))


def test_json_that_stays_invalid_is_repaired_once() -> None:
    calls = 0

    class Counted(EmbedRequest):
        @classmethod
        def parse(cls, text: bytes) -> Self:
            nonlocal calls
            calls += 1
            return super().parse(text)

    deep = "[" * 300 + "]" * 300
    for text in (r"\\ud83d", r"\\ud83d \ud83d"):
        calls = 0
        with pytest.raises(ValidationError, match="Invalid JSON: recursion"):
            Counted.parse(f'{{"inputs": "{text}", "b": {deep}}}'.encode())
        assert calls <= 2


def test_a_known_field_that_is_null_keeps_its_meaning() -> None:
    body = EmbedRequest.parse(b'{"inputs": "a", "truncate": null, "surprise": null}')
    assert body.model_fields_set == {"inputs", "truncate"}
    with pytest.raises(ValidationError, match="inputs"):
        EmbedRequest.parse(b'{"inputs": null, "surprise": null}')


def test_a_number_of_any_size_and_broken_json_are_read_as_without_the_field() -> None:
    text = '{"inputs": [{"image": "x", "other": null}], "dimensions": -1%s, "surprise": null}'
    with pytest.raises(ValidationError, match="dimensions"):
        EmbedRequest.parse((text % ("0" * 30)).encode())
    with pytest.raises(ValidationError, match="JSON"):
        EmbedRequest.parse(b'{"inputs": "a", "surprise": null')


def test_a_list_of_objects_with_many_names_ends() -> None:
    items = ", ".join(f'{{"image": "x", "name{index}": null}}' for index in range(100))
    with pytest.raises(ValidationError, match="name8"):
        EmbedRequest.parse(f'{{"inputs": [{items}]}}'.encode())


@pytest.mark.parametrize(
    "field", ['"user": "me"', '"dimensions": 0', '"encoding_format": "base64"']
)
def test_a_body_with_openais_fields_alone_is_of_openais_type(field: str) -> None:
    assert type(OpenAIRequest.parse(f'{{"input": "a", {field}}}'.encode())) is OpenAIRequest


@pytest.mark.parametrize(
    "field", ['"task": null', '"encoding_format": "bytes"', '"surprise": null']
)
def test_a_body_with_another_vendors_fields_is_of_the_type_with_all(field: str) -> None:
    body = OpenAIRequest.parse(f'{{"input": "a", {field}}}'.encode())
    assert type(body) is EmbeddingsRequest is OpenAIRequest.widest() is EmbeddingsRequest.widest()


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ('"texts": ["b"], "truncate": true', PlainRerankRequest),  # TEI
        ('"documents": ["b"], "top_n": 1', PlainRerankRequest),  # Jina
        ('"documents": ["b"], "top_k": 1', RerankRequest),  # Voyage
        ('"documents": ["b"], "property": "p"', RerankRequest),  # Weaviate
    ],
)
def test_a_request_to_rank_is_of_the_narrowest_type_with_its_fields(
    field: str, kind: type[Body]
) -> None:
    assert type(PlainRerankRequest.parse(f'{{"query": "a", {field}}}'.encode())) is kind


def test_the_error_of_an_invalid_body_is_that_of_the_type_with_all_fields() -> None:
    with pytest.raises(ValidationError, match="EmbeddingsRequest"):
        OpenAIRequest.parse(b'{"input": 5}')


FULL: dict[str, Any] = {
    "fields": lambda count: {str(index): 1 for index in range(count)},
    "objects": lambda count: [{}] * (count),
    "lists": lambda count: [[]] * (count - 1),
    "values": lambda count: [1] * (count + 1),
}


@pytest.mark.parametrize(("name", "limit"), JSON_LIMITS.values(), ids=str)
def test_the_limit_is_accepted_and_one_more_is_refused(name: str, limit: int) -> None:
    check_json_parts(json.dumps(FULL[name](limit)).encode())
    with pytest.raises(TooLarge, match=f"more than {limit} {name}") as refused:
        check_json_parts(json.dumps(FULL[name](limit + 1)).encode())
    assert refused.value.code == "too_many_parts"


@pytest.mark.parametrize("quoted", ['"', "\\", '\\"', '\\\\"', '"\\', "{[:,"])
def test_characters_in_a_string_do_not_count(quoted: str) -> None:
    text = f"{quoted}{{[:,{quoted}" * 1_000_001
    check_json_parts(json.dumps({"inputs": [text, quoted]}).encode())


def test_the_limit_is_accepted_with_characters_in_a_string() -> None:
    fields = {str(number): 1 for number in range(9_999)}
    check_json_parts(json.dumps({**fields, "": ":"}).encode())


@pytest.mark.parametrize("quoted", ['"', "\\", '\\"', '\\\\"', '"\\'])
def test_characters_after_a_string_count(quoted: str) -> None:
    with pytest.raises(TooLarge):
        check_json_parts(json.dumps([quoted, FULL["fields"](10_001)]).encode())


def test_eight_million_parts_are_refused() -> None:
    for sign in JSON_LIMITS:
        with pytest.raises(TooLarge):
            check_json_parts(sign * (8 << 20))
