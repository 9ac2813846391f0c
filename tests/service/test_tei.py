"""TEI's documented requests with every field of them, and the fields of its documented answers."""

from typing import Any

import pytest

from tests.service.responses import error
from tests.service.server import Server

TEXT = "What is Deep Learning?"
CUT = {"prompt_name": None, "truncate": False, "truncation_direction": "Right"}
NUMBER = 0.5


def shape(value: Any) -> Any:
    """Objects by their fields, lists by their first entry, and numbers as one number."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value[:1]]
    return NUMBER if isinstance(value, float) else value


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        ("/", {"inputs": TEXT}, [[NUMBER]]),
        ("/embed", {"inputs": TEXT, "normalize": True, "dimensions": None, **CUT}, [[NUMBER]]),
        ("/embed", {"inputs": [TEXT, "I like you"]}, [[NUMBER]]),
        ("/embed_all", {"inputs": TEXT, **CUT}, [[[NUMBER]]]),
        (
            "/similarity",
            {
                "inputs": {"source_sentence": TEXT, "sentences": ["What is Machine Learning?"]},
                "parameters": CUT,
            },
            [NUMBER],
        ),
        (
            "/similarity",
            {"inputs": {"source_sentence": TEXT, "sentences": [TEXT]}, "parameters": None},
            [NUMBER],
        ),
        (
            "/tokenize",
            {"inputs": TEXT, "add_special_tokens": True, "prompt_name": None},
            [
                [
                    {
                        "id": 101,
                        "text": "[CLS]",
                        "special": True,
                        "start": None,
                        "stop": None,
                        "start_char": None,  # ours
                        "stop_char": None,
                    }
                ]
            ],
        ),
        ("/decode", {"ids": [2784, 4083], "skip_special_tokens": True}, ["deep learning"]),
        (
            "/v1/embeddings",
            {
                "input": TEXT,
                "model": None,
                "user": None,
                "encoding_format": "float",
                "dimensions": None,
            },
            {
                "id": "mine",  # ours
                "object": "list",
                "data": [{"object": "embedding", "index": 0, "embedding": [NUMBER]}],
                "model": "all-MiniLM-L6-v2",
                "usage": {"prompt_tokens": 7, "total_tokens": 7},
            },
        ),
    ],
)
def test_a_documented_request_gets_the_documented_fields(
    server: Server, path: str, body: object, answer: object
) -> None:
    found = server.post(path, body, **{"x-request-id": "mine"})
    assert found.status_code == 200, found.text
    assert shape(found.json()) == answer


BODIES: list[tuple[str, dict[str, object]]] = [
    ("/", {"inputs": TEXT}),
    ("/embed", {"inputs": [TEXT]}),
    ("/embed_all", {"inputs": TEXT}),
    ("/similarity", {"inputs": {"source_sentence": TEXT, "sentences": [TEXT]}}),
]


@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize(
    "options",
    [
        None,
        {"wait_for_model": None},
        {"wait_for_model": True},
        {"wait_for_model": True, "use_cache": True, "use_gpu": False},
    ],
)
def test_the_options_of_hosted_models_change_nothing(
    server: Server, path: str, body: dict[str, object], options: object
) -> None:
    found = server.post(path, {**body, "options": options})
    assert found.status_code == 200, found.text
    assert found.content == server.post(path, body).content


@pytest.mark.parametrize(
    ("path", "body", "nulls"),
    [
        ("/embed", {"inputs": TEXT}, ["normalize", "dimensions", "truncate", "options"]),
        ("/tokenize", {"inputs": TEXT}, ["add_special_tokens", "prompt_name"]),
        ("/decode", {"ids": [101, 7592, 102]}, ["skip_special_tokens"]),
    ],
)
def test_null_is_not_given(
    server: Server, path: str, body: dict[str, object], nulls: list[str]
) -> None:
    found = server.post(path, {**body, **dict.fromkeys(nulls)})
    assert found.status_code == 200, found.text
    assert found.content == server.post(path, body).content


@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"normalize": False}, "unknown_field"),
        ({"use_cache": 1}, "invalid_request"),
        (True, "invalid_request"),
    ],
)
def test_other_options_are_refused(
    server: Server, path: str, body: dict[str, object], options: object, code: str
) -> None:
    found = error(server.post(path, {**body, "options": options}), 400)
    assert found["code"] == code and found["param"].startswith("options")


@pytest.mark.parametrize(
    ("path", "body", "status", "told"),
    [
        ("/embed", {"inputs": [1.5]}, 400, "Validation invalid_request"),
        ("/embed", {"inputs": []}, 400, "Empty no_input"),
        ("/embed", {"inputs": "x" * (9 << 20)}, 413, "Validation body_too_large"),
        ("/embed_all", {"inputs": "x", "truncate": 1}, 400, "Validation invalid_request"),
        ("/similarity", {"inputs": {}}, 400, "Validation invalid_request"),
        ("/tokenize", {}, 400, "Validation invalid_request"),
        ("/decode", {"ids": [10**6]}, 400, "Validation unknown_token"),
        ("/rerank", {"query": "x", "texts": ["y"]}, 404, "Validation not_found"),
    ],
)
def test_an_error_is_text_with_its_type_and_ours_beside_it(
    server: Server, path: str, body: object, status: int, told: str
) -> None:
    answer = server.post(path, body)
    found = answer.json()
    assert answer.status_code == status and isinstance(found["error"], str)
    assert f"{found['error_type']} {found['code']}" == told
    assert found.keys() == {"error", "error_type", "code", "param", "index", "request_id"}


def test_times_are_told_in_whole_milliseconds_too(server: Server) -> None:
    text = "a long text " * 200
    headers = server.post("/embed", {"inputs": [text] * 64}).headers
    assert int(headers["x-compute-us"]) >= 1000
    for ours, teis in (
        ("x-tokenize-us", "x-tokenization-time"),
        ("x-queue-us", "x-queue-time"),
        ("x-compute-us", "x-inference-time"),
        ("x-total-us", "x-total-time"),
    ):
        assert int(headers[teis]) == int(headers[ours]) // 1000


@pytest.mark.parametrize("path", ["/embed_sparse", "/predict", "/rerank", "/invocations"])
def test_what_is_for_other_models_is_not_found(server: Server, path: str) -> None:
    found = server.post(path, {"inputs": TEXT})
    assert (found.status_code, found.json()["code"]) == (404, "not_found")
