"""Fields of Voyage, Jina, NIM and vLLM on /v1/embeddings."""

import base64
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.hub.sources import DEFAULT
from embedwell_models.vectors import normalize, quantize
from embedwell_vendors.embeddings import EmbeddingsRequest
from tests.conftest import Folder
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import HttpServer

LONG = "beginning " + "word " * 600 + "ending"


@pytest.fixture(scope="module")
def server_with_prompts(tiny_bert: Folder) -> Iterator[HttpServer]:
    prompts = {"query": "query: ", "document": "document: ", "classification": "class: "}
    folder = tiny_bert({"config_sentence_transformers.json": {"prompts": prompts}})
    with local_server(folder, served_name="of-a-query") as running:
        yield running


def embed(server: HttpServer, text: str, **fields: object) -> Any:
    response = server.post("/v1/embeddings", {"input": text, **fields})
    assert response.status_code == 200, response.text
    return response.json()["data"][0]["embedding"]


@pytest.mark.parametrize(
    ("fields", "prompt"),
    [
        ({}, ""),
        ({"input_type": None}, ""),
        ({"model": "of-a-query"}, ""),
        ({"input_type": "query"}, "query: "),
        ({"input_type": "document"}, "document: "),
        ({"input_type": "passage"}, "document: "),
        ({"task": "retrieval.query"}, "query: "),
        ({"task": "retrieval.passage"}, "document: "),
        ({"task": "classification"}, "class: "),
        ({"task": "separation"}, ""),
        ({"task": "text-matching"}, ""),
        ({"model": "of-a-query-query"}, "query: "),
        ({"model": "of-a-query-passage"}, "document: "),
        ({"model": "of-a-query-query", "input_type": "query"}, "query: "),
        ({"task": "retrieval.passage", "input_type": "passage"}, "document: "),
        ({"prompt_name": "query"}, "query: "),
        ({"prompt": "a text: "}, "a text: "),
        ({"prompt": "a text: ", "task": "retrieval.query"}, "a text: "),
        ({"prompt": "", "task": "retrieval.query"}, ""),
    ],
)
def test_a_request_selects_a_prompt(
    server_with_prompts: HttpServer, fields: dict[str, object], prompt: str
) -> None:
    assert embed(server_with_prompts, "red", **fields) == embed(server_with_prompts, f"{prompt}red")


@pytest.mark.parametrize("suffix", ["-query", "-passage"])
def test_without_prompts_roles_have_no_effect(server: HttpServer, suffix: str) -> None:
    assert embed(server, "red", model=f"{DEFAULT}{suffix}") == embed(server, "red")


@pytest.mark.parametrize("model", ["-query", f"{DEFAULT}-Query", f"{DEFAULT}-query-query", "query"])
def test_a_name_that_resembles_the_models_is_not_found(server: HttpServer, model: str) -> None:
    response = server.post("/v1/embeddings", {"input": "a", "model": model})
    assert error(response, 404)["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("fields", "side"),
    [
        ({}, "right"),
        ({"truncate": True}, "right"),
        ({"truncation": True}, "right"),
        ({"truncate": "END"}, "right"),
        ({"truncate": "START"}, "left"),
    ],
)
def test_a_long_text_is_cut_at_the_requested_side(
    server: HttpServer, embedder: Embedder, fields: dict[str, object], side: Any
) -> None:
    ids = embedder.tokenizer.encode([LONG], side)[0].ids
    actual = np.array(embed(server, LONG, **fields), dtype=np.float32)
    np.testing.assert_array_equal(actual, embedder.encode([ids])[0])


@pytest.mark.parametrize(
    "fields", [{"truncate": False}, {"truncation": False}, {"truncate": "NONE"}]
)
def test_a_long_text_is_refused_without_truncation(
    server: HttpServer, fields: dict[str, object]
) -> None:
    response = server.post("/v1/embeddings", {"input": LONG, **fields})
    assert error(response, 400)["code"] == "input_too_long"


@pytest.mark.parametrize("length", [3, 10, 255, 256, -1])
def test_truncate_prompt_tokens_limits_tokens(
    server: HttpServer, embedder: Embedder, length: int
) -> None:
    all_ids = [token.id for token in embedder.tokenizer.tokens(LONG)]
    limit = 256 if length == -1 else length
    response = server.post("/v1/embeddings", {"input": LONG, "truncate_prompt_tokens": length})
    assert response.json()["usage"]["prompt_tokens"] == limit
    assert response.headers["x-truncated"] == "1"
    actual = np.array(response.json()["data"][0]["embedding"], dtype=np.float32)
    truncated = [*all_ids[: limit - 1], all_ids[-1]]
    np.testing.assert_array_equal(actual, embedder.encode([np.array(truncated, dtype=np.int32)])[0])


def test_truncate_prompt_tokens_cuts_token_ids_and_multivectors_too(server: HttpServer) -> None:
    fields = {"truncate_prompt_tokens": 4}
    truncated = embed(server, "one two three four", **fields)
    assert truncated == embed(server, "one two") != embed(server, "one two three four")
    ids = [row["id"] for row in server.post("/tokenize", {"inputs": "one two three"}).json()[0]]
    response = server.post("/v1/embeddings", {"input": [ids, "red"], **fields}).json()
    assert [row["embedding"] for row in response["data"]] == [truncated, embed(server, "red")]
    assert response["usage"]["total_tokens"] == 4 + 3
    (states,) = multivectors(server, "one two three", **fields)
    assert states == multivectors(server, "one two")[0]


def test_truncate_prompt_tokens_uses_the_models_side_and_excludes_its_prompt(
    tiny_bert: Folder,
) -> None:
    """A model that cuts at the start and does not pool its prompt."""
    files = {
        "config_sentence_transformers.json": {"prompts": {"query": "the "}},
        "sentence_bert_config.json": {"tokenizer_args": {"truncation_side": "left"}},
        "modules.json": [
            {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        ],
        "1_Pooling/config.json": {"pooling_mode_mean_tokens": True, "include_prompt": False},
    }
    settings: dict[str, Any] = {"model": tiny_bert(files), "auto_truncate": False}
    with local_server(**settings) as server:
        text = "you and any work for this"
        left = embed(server, text, truncate_prompt_tokens=5)
        assert left == embed(server, "work for this") != embed(server, "you and any")
        query = embed(server, text, truncate_prompt_tokens=5, input_type="query")
        assert query == left  # the prompt is the first that is cut off
        longer = embed(server, text, truncate_prompt_tokens=9, input_type="query")
        assert longer == embed(server, text, input_type="query") != embed(server, text)


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        (
            {"truncate_prompt_tokens": 2},
            "truncate_prompt_tokens",
            "must be above 2, the",
        ),
        (
            {"truncate_prompt_tokens": 0},
            "truncate_prompt_tokens",
            "must be above 2, the",
        ),
        ({"truncate_prompt_tokens": -2}, "truncate_prompt_tokens", "greater than or equal to -1"),
        ({"truncate_prompt_tokens": 9, "truncate": True}, "truncate_prompt_tokens", "not both"),
        ({"truncate_prompt_tokens": 9, "truncation": False}, "truncate_prompt_tokens", "not both"),
        ({"truncate_prompt_tokens": 9, "late_chunking": True}, "late_chunking", "cannot be"),
        ({"add_special_tokens": False}, "add_special_tokens", "always"),
        ({"normalize": True, "normalized": True}, "normalized", "not both"),
        ({"encoding_type": "float", "output_dtype": "float"}, "encoding_type", "not both"),
        ({"encoding_type": "base64", "encoding_format": "float"}, "encoding_format", "not both"),
        ({"input": [{"image": "aGk="}]}, "input", "reads texts only; send no images"),
        ({"input": "aGk=", "modality": "image"}, "input", "reads texts only; send no images"),
        ({"input": [{}]}, "input", "input.0: Input should have either a text or an image"),
        ({"input": {"text": "a", "url": "b"}}, "input.url", "unknown field 'input.url'"),
        ({"input": [{"text": 5}]}, "input", "input.0.text: Input should be a text"),
    ],
)
def test_contradictory_and_unsupported_fields_are_refused(
    server: HttpServer, fields: dict[str, object], param: str, message: str
) -> None:
    fault = error(server.post("/v1/embeddings", {"input": "red", **fields}), 400)
    assert fault["param"] == param and message in fault["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {"drop_params": True},  # RAGFlow
        {"metadata": {"user": "me", "run": 7}},  # Mistral
        {"add_special_tokens": True},
        {"normalize": True},
        {"encoding_type": "float"},
        {"dimensions": 0, "modality": "text"},  # Infinity's client
        {"truncate_prompt_tokens": 9},
    ],
)
def test_ignored_fields_are_accepted(server: HttpServer, fields: dict[str, object]) -> None:
    assert embed(server, "red", **fields) == embed(server, "red")


def test_each_field_may_be_null(server: HttpServer) -> None:
    optional = set(EmbeddingsRequest.model_fields) - {"input"}
    assert embed(server, "red", **dict.fromkeys(optional)) == embed(server, "red")


def test_normalize_false_keeps_the_length_too(server: HttpServer) -> None:
    assert embed(server, "red", normalize=False) == embed(server, "red", normalized=False)


@pytest.mark.parametrize("single", [True, False])
def test_objects_with_a_text_equal_the_text(server: HttpServer, single: bool) -> None:
    texts: list[Any] = [{"text": "red"}, "blue", {"text": "green"}, [101, 2417, 102]]
    inputs = texts[0] if single else texts
    as_strings = "red" if single else ["red", "blue", "green", "red"]
    actual, expected = (
        [row["embedding"] for row in server.post("/v1/embeddings", {"input": each}).json()["data"]]
        for each in (inputs, as_strings)
    )
    assert actual == expected


def test_the_response_has_the_id_of_the_request_and_its_time(server: HttpServer) -> None:
    begun = int(time.time())
    response = server.post("/v1/embeddings", {"input": "red"})
    assert response.json()["id"] == response.headers["x-request-id"] != ""
    assert begun <= response.json()["created"] <= time.time()


@pytest.mark.parametrize("field", ["embedding_type", "output_dtype", "encoding_type"])
@pytest.mark.parametrize("kind", ["int8", "uint8", "binary", "ubinary"])
def test_the_number_type_has_three_field_names(
    server: HttpServer, embedder: Embedder, field: str, kind: str
) -> None:
    expected = quantize(embedder.embed(["red"]), kind)[0]
    assert embed(server, "red", **{field: kind}) == expected.tolist()
    encoded = embed(server, "red", **{field: kind, "encoding_format": "base64"})
    assert encoded == base64.b64encode(expected.tobytes()).decode()


def test_floats_are_the_default_under_every_name(server: HttpServer) -> None:
    plain = embed(server, "red")
    for fields in ({"embedding_type": "float"}, {"output_dtype": "float"}, {"normalized": True}):
        assert embed(server, "red", **fields) == plain
    encoded = embed(server, "red", encoding_format="base64")
    assert embed(server, "red", embedding_type="base64") == encoded


def test_normalized_false_keeps_the_length_of_the_pooled_vector(server: HttpServer) -> None:
    expected = server.post("/embed", {"inputs": "red", "normalize": False}).json()[0]
    assert embed(server, "red", normalized=False) == expected != embed(server, "red")


def test_output_dimension_is_dimensions(server_any_dimensions: HttpServer) -> None:
    short = embed(server_any_dimensions, "red", output_dimension=32)
    assert short == embed(server_any_dimensions, "red", dimensions=32) and len(short) == 32


def test_late_chunking_reads_the_inputs_as_one_text(server: HttpServer) -> None:
    chunks = ["Berlin is large.", "Its people like it."]
    body = {"input": chunks, "late_chunking": True}
    actual = [row["embedding"] for row in server.post("/v1/embeddings", body).json()["data"]]
    expected = server.post("/embed", {"inputs": chunks, "late_chunking": True}).json()
    assert actual == expected != server.post("/embed", {"inputs": chunks}).json()


def multivectors(server: HttpServer, inputs: object, **fields: object) -> list[Any]:
    body = {"input": inputs, "return_multivector": True, **fields}
    response = server.post("/v1/embeddings", body)
    assert response.status_code == 200, response.text
    rows = response.json()["data"]
    assert [row["index"] for row in rows] == [*range(len(rows))]
    return [row["embeddings"] for row in rows]


def test_multivectors_are_the_states_of_every_token_of_unit_length(
    server: HttpServer, embedder: Embedder
) -> None:
    texts = ["red", "a longer text", LONG]
    expected = embedder.hidden([row.ids for row in embedder.tokenizer.encode(texts)])
    actual = multivectors(server, texts)
    plain = multivectors(server, texts, normalized=False)
    for states, units, unscaled in zip(expected, actual, plain, strict=True):
        np.testing.assert_array_equal(np.array(unscaled, dtype=np.float32), states)
        np.testing.assert_array_equal(np.array(units, dtype=np.float32), normalize(states))
    assert [len(each) for each in actual] == [3, 5, 256]


def test_multivectors_of_token_ids_and_with_prompts(
    server: HttpServer, server_with_prompts: HttpServer
) -> None:
    assert multivectors(server, [[101, 2417, 102]]) == multivectors(server, "red")
    actual = multivectors(server_with_prompts, "red", task="retrieval.query")
    assert actual == multivectors(server_with_prompts, "query: red")


@pytest.mark.parametrize("kind", ["int8", "uint8", "binary", "ubinary", "float"])
def test_multivectors_have_the_requested_number_type(server: HttpServer, kind: str) -> None:
    (floats,) = multivectors(server, "red")
    dtype = "float32" if kind == "float" else kind
    expected = quantize(np.array(floats, dtype=np.float32), dtype)
    (actual,) = multivectors(server, "red", embedding_type=kind)
    np.testing.assert_array_equal(np.array(actual, dtype=expected.dtype), expected)
    encoded = multivectors(server, "red", output_dtype=kind, encoding_format="base64")[0]
    assert encoded == [base64.b64encode(row.tobytes()).decode() for row in expected]


def test_multivectors_are_counted_and_limited(server: HttpServer) -> None:
    body = {"input": ["red", LONG], "return_multivector": True}
    response = server.post("/v1/embeddings", body)
    usage = {"prompt_tokens": 259, "total_tokens": 259, "completion_tokens": 0}
    assert response.json()["usage"] == usage
    assert response.headers["x-truncated"] == "1"
    response = server.post("/v1/embeddings", {**body, "input": [LONG] * 50})
    assert error(response, 413)["code"] == "too_many_values"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"late_chunking": True, "input": [101, 102]}, "late_chunking"),
        ({"return_multivector": True, "late_chunking": True}, "late_chunking"),
        ({"return_multivector": True, "dimensions": 128}, "dimensions"),
        ({"return_multivector": True, "output_dimension": 128}, "output_dimension"),
        ({"task": "code.query"}, "task"),
        ({"input_type": "image"}, "input_type"),
        ({"truncate": "MIDDLE"}, "truncate"),
        ({"truncate": "END", "truncation": True}, "truncation"),
        ({"dimensions": 8, "output_dimension": 8}, "output_dimension"),
        ({"output_dtype": "int8", "embedding_type": "int8"}, "embedding_type"),
        ({"embedding_type": "base64", "encoding_format": "float"}, "encoding_format"),
        ({"embedding_type": ["float", "binary"]}, "embedding_type"),
        ({"input_type": "query", "task": "retrieval.passage"}, "task"),
        ({"input_type": "query", "model": f"{DEFAULT}-passage"}, "input_type"),
        ({"prompt": "a", "prompt_name": "query"}, "prompt"),
        ({"prompt": "a", "input_type": "query"}, "prompt"),
        ({"modality": "audio"}, "modality"),
        ({"modality": ["text", "image"]}, "modality"),
        ({"embed_dtype": "float16"}, "embed_dtype"),
        ({"endianness": "big"}, "endianness"),
        ({"embed_dtype": "bfloat16", "output_dtype": "int8"}, "embed_dtype"),
    ],
)
def test_unsupported_values_are_refused_by_field(
    server: HttpServer, fields: dict[str, object], param: str
) -> None:
    response = server.post("/v1/embeddings", {"input": "red", **fields})
    fault = error(response, 400)
    assert fault["param"] == param and param in fault["message"]
    assert response.json()["detail"] == fault["message"]  # for Voyage's client


def test_disabled_fields_are_accepted(server: HttpServer) -> None:
    fields = {"late_chunking": False, "return_multivector": False, "modality": None}
    assert embed(server, "red", **fields) == embed(server, "red")


@pytest.mark.parametrize("truncate", [0, 1, 1.0, "true", "end", []])
def test_truncate_is_a_boolean_or_none_start_end(server: HttpServer, truncate: object) -> None:
    response = server.post("/v1/embeddings", {"input": "red", "truncate": truncate})
    expected = "truncate: Input should be true, false, 'NONE', 'START' or 'END'"
    assert error(response, 400)["message"] == expected


@pytest.mark.parametrize(
    ("modality", "expected"),
    [
        ("audio", "modality: Input should be 'text' or 'image'"),
        (["text", "audio"], "modality.1: Input should be 'text' or 'image'"),
        (5, "modality: Input should be a list"),
    ],
)
def test_another_modality_is_refused_without_names_of_types(
    server: HttpServer, modality: object, expected: str
) -> None:
    response = server.post("/v1/embeddings", {"input": "red", "modality": modality})
    assert error(response, 400)["message"] == expected


@pytest.mark.parametrize("modality", ["text", ["text"]])
def test_the_modality_is_text(server: HttpServer, modality: object) -> None:
    assert embed(server, "red", modality=modality) == embed(server, "red")


@pytest.mark.parametrize(
    ("path", "field", "expected"),
    [
        ("/v1/embeddings", "input", "a text, its token ids, or a list of either"),
        ("/embed", "inputs", "a text, its token ids, or a list of either"),
        ("/tokens", "inputs", "a text or a list of texts"),
        ("/tokenize", "inputs", "a text or a list of texts"),
        ("/decode", "ids", "token ids or a list of them"),
        ("/similarity", "a", "a text, a list of texts, or a list of vectors"),
    ],
)
@pytest.mark.parametrize("value", [5, {"text": "red"}])
def test_the_error_of_an_invalid_input_lists_the_valid_types(
    server: HttpServer, path: str, field: str, expected: str, value: object
) -> None:
    if path == "/v1/embeddings" and value == {"text": "red"}:
        return  # Jina's, which is read there
    fault = error(server.post(path, {field: value}), 400)
    assert fault["message"] == f"{field}: Input should be {expected}" and fault["param"] == field


@pytest.mark.parametrize("item", [None, 5, True])
def test_an_item_of_another_type_is_named(server: HttpServer, item: object) -> None:
    for path, body in (
        ("/v1/embeddings", {"input": ["a", item]}),
        ("/embed", {"inputs": ["a", item]}),
        ("/api/embed", {"model": DEFAULT, "input": ["a", item]}),
    ):
        fault = error(server.post(path, body), 400)
        assert fault["message"].endswith(".1: Input should be a text") and fault["index"] == 1


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/embed", {"input": "a"}, "inputs"),
        ("/v1/embeddings", {"inputs": "a"}, "input"),
        ("/v1/embeddings", {"input": "a", "dimension": 4}, "dimensions"),
        ("/rerank", {"query": "a", "document": ["b"]}, "documents"),
    ],
)
def test_an_unknown_field_is_compared_with_those_of_the_route(
    server: HttpServer, path: str, body: dict[str, object], field: str
) -> None:
    message = error(server.post(path, body), 400)["message"]
    assert message.endswith(f"; did you mean {field!r}? GET /docs describes all fields")


def test_an_unknown_field_like_no_other_gets_the_fields(server: HttpServer) -> None:
    fault = error(server.post("/embed", {"inputs": "a", "zzz": 1}), 400)
    assert fault["message"].startswith("unknown field 'zzz'; the fields are inputs, ")
    nested = error(server.post("/embed", {"inputs": "a", "options": {"zzz": 1}}), 400)
    assert nested["message"].startswith("unknown field 'options.zzz'; the fields are wait_for")


def test_an_empty_body_is_called_so(server: HttpServer) -> None:
    fault = error(server.client.post("/v1/embeddings"), 400)
    assert fault["message"] == "the body is empty; send a JSON object"


def test_a_maximum_above_the_models_limit_is_that_limit(server: HttpServer) -> None:
    body = {"input": ["a", LONG]}
    whole = server.post("/v1/embeddings", {**body, "truncate_prompt_tokens": -1}).json()
    large = server.post("/v1/embeddings", {**body, "truncate_prompt_tokens": 100_000}).json()
    assert large["data"] == whole["data"] and large["usage"] == whole["usage"]


def test_a_name_may_have_ollamas_tag(server: HttpServer) -> None:
    body = {"input": "a", "model": f"{DEFAULT}:latest"}
    assert server.post("/v1/embeddings", body).json()["model"] == DEFAULT
    fault = error(server.post("/v1/embeddings", {**body, "model": f"{DEFAULT}:v2"}), 404)
    assert fault["code"] == "model_not_found"


@pytest.mark.parametrize("field", ["dimensions", "output_dimension"])
def test_a_whole_number_may_have_a_point(server: HttpServer, field: str) -> None:
    response = server.post("/v1/embeddings", {"input": "a", field: 384.0})
    assert len(response.json()["data"][0]["embedding"]) == 384
    for number in (384.5, True, "384", -1.0):
        fault = error(server.post("/v1/embeddings", {"input": "a", field: number}), 400)
        assert fault["param"] == field


def test_coheres_route_needs_no_role(server: HttpServer) -> None:
    body = {"model": DEFAULT, "texts": ["a"]}
    response = server.post("/v2/embed", body)
    assert response.status_code == 200, response.text
    expected = server.post("/v2/embed", {**body, "input_type": "search_document"}).json()
    assert response.json()["embeddings"] == expected["embeddings"]


@pytest.mark.parametrize("content", ["red", [{"type": "text", "text": "red"}]])
def test_a_message_has_the_vector_of_its_text(server: HttpServer, content: Any) -> None:
    messages = [{"role": "user", "content": content}]
    response = server.post("/v1/embeddings", {"messages": messages, "dimensions": 0})
    assert response.json()["data"][0]["embedding"] == embed(server, "red")


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({}, "input", "input: Field required"),
        ({"input": None}, "input", "input: Field required"),
        ({"input": "a", "messages": []}, "messages", "give either input or messages, not both"),
        ({"messages": []}, "messages", "has the roles [], but the model"),
        ({"messages": [{"role": "user", "content": "a"}] * 2}, "messages", "[user, user]"),
        ({"messages": [{"role": "system", "content": "a"}]}, "messages", "reads no conversations"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages", "Input should be 'system'"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages", "should be a list"),
        ({"messages": [{"role": "user", "content": []}]}, "messages", "at least 1 item"),
        ({"messages": [{"role": "user", "content": [{"type": "x"}]}]}, "messages", "'image_url'"),
    ],
    ids=str,
)
def test_invalid_messages_are_refused(
    server: HttpServer, body: dict[str, Any], param: str, message: str
) -> None:
    fault = error(server.post("/v1/embeddings", body), 400)
    assert fault["param"] == param and message in fault["message"]
