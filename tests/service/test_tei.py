"""TEI's documented requests with all their fields, and the fields of its documented responses."""

from typing import Any

import pytest

from tests.service.responses import error
from tests.service.server import Server

TEXT = "What is Deep Learning?"
TRUNCATION = {"prompt_name": None, "truncate": False, "truncation_direction": "Right"}
NUMBER = 0.5


def shape(value: Any) -> Any:
    """Reduce lists to their first entry, and all floats and times to one number."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    is_time = isinstance(value, int) and value > 1e9
    return NUMBER if isinstance(value, float) or is_time else value


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/", {"inputs": TEXT}, [[NUMBER]]),
        (
            "/embed",
            {"inputs": TEXT, "normalize": True, "dimensions": None, **TRUNCATION},
            [[NUMBER]],
        ),
        ("/embed", {"inputs": [TEXT, "I like you"]}, [[NUMBER]]),
        ("/embed_all", {"inputs": TEXT, **TRUNCATION}, [[[NUMBER]]]),
        (
            "/similarity",
            {
                "inputs": {"source_sentence": TEXT, "sentences": ["What is Machine Learning?"]},
                "parameters": TRUNCATION,
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
                        "start_char": None,  # not of TEI
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
                "id": "mine",  # not of TEI, nor are "created" and "completion_tokens"
                "created": NUMBER,
                "object": "list",
                "data": [{"object": "embedding", "index": 0, "embedding": [NUMBER]}],
                "model": "all-MiniLM-L6-v2",
                "usage": {"prompt_tokens": 7, "total_tokens": 7, "completion_tokens": 0},
            },
        ),
    ],
)
def test_documented_requests_get_the_documented_fields(
    server: Server, path: str, body: object, expected: object
) -> None:
    response = server.post(path, body, **{"x-request-id": "mine"})
    assert response.status_code == 200, response.text
    assert shape(response.json()) == expected


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
def test_options_of_hosted_models_are_ignored(
    server: Server, path: str, body: dict[str, object], options: object
) -> None:
    response = server.post(path, {**body, "options": options})
    assert response.status_code == 200, response.text
    assert response.content == server.post(path, body).content


@pytest.mark.parametrize(
    ("path", "body", "nulls"),
    [
        ("/embed", {"inputs": TEXT}, ["normalize", "dimensions", "truncate", "options"]),
        ("/tokenize", {"inputs": TEXT}, ["add_special_tokens", "prompt_name"]),
        ("/decode", {"ids": [101, 7592, 102]}, ["skip_special_tokens"]),
    ],
)
def test_null_equals_an_absent_field(
    server: Server, path: str, body: dict[str, object], nulls: list[str]
) -> None:
    response = server.post(path, {**body, **dict.fromkeys(nulls)})
    assert response.status_code == 200, response.text
    assert response.content == server.post(path, body).content


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
    response = error(server.post(path, {**body, "options": options}), 400)
    assert response["code"] == code and response["param"].startswith("options")


@pytest.mark.parametrize(
    ("path", "body", "status", "type_and_code"),
    [
        ("/embed", {"inputs": [1.5]}, 400, "Validation invalid_request"),
        ("/embed", {"inputs": []}, 400, "Empty no_input"),
        ("/embed", {"inputs": "x" * (9 << 20)}, 413, "Validation body_too_large"),
        ("/embed_all", {"inputs": "x", "truncate": 1}, 400, "Validation invalid_request"),
        ("/similarity", {"inputs": {}}, 400, "Validation invalid_request"),
        ("/tokenize", {}, 400, "Validation invalid_request"),
        ("/decode", {"ids": [10**6]}, 400, "Validation unknown_token"),
        ("/embed_sparse", {"inputs": "x"}, 400, "Validation not_offered"),
        ("/vertex", {"inputs": "x"}, 404, "Validation not_found"),
    ],
)
def test_an_error_is_a_text_with_its_type_and_the_servers_own_fields(
    server: Server, path: str, body: object, status: int, type_and_code: str
) -> None:
    expected = server.post(path, body)
    response = expected.json()
    assert expected.status_code == status and isinstance(response["error"], str)
    assert f"{response['error_type']} {response['code']}" == type_and_code
    assert response.keys() == {"error", "error_type", "code", "param", "index", "request_id"}


def test_tei_headers_have_the_times_in_milliseconds(server: Server) -> None:
    text = "a long text " * 200
    headers = server.post("/embed", {"inputs": [text] * 4}).headers
    assert int(headers["x-compute-us"]) >= 1000
    for own_header, tei_header in (
        ("x-tokenize-us", "x-tokenization-time"),
        ("x-queue-us", "x-queue-time"),
        ("x-compute-us", "x-inference-time"),
        ("x-total-us", "x-total-time"),
    ):
        assert int(headers[tei_header]) == int(headers[own_header]) // 1000
