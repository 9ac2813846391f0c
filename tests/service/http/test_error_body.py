"""Tests of error responses: format, type, and whether to retry."""

from typing import Any

import orjson
import pytest

from embedwell.errors import (
    BadRequest,
    EncodingFailed,
    EngineUnavailable,
    InternalError,
    NotFinite,
    Overloaded,
    ServiceError,
    TimedOut,
    TooLarge,
    Unauthorized,
    UnknownModel,
)
from embedwell.http.error_body import describe, respond

FAULT = BadRequest("no", param="inputs", index=3)
REST = {"code": "invalid_request", "param": "inputs", "index": 3}
OPENAI = {"message": "no", "type": "invalid_request_error", "request_id": "1", **REST}
NATIVE = {"error": "no", "error_type": "Validation", "request_id": "1", **REST}


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/embed", NATIVE),
        ("/", NATIVE),
        ("/rerank", NATIVE),
        ("/positions", NATIVE),
        ("/api/embed", NATIVE),
        ("/v10/embeddings", NATIVE),
        ("", NATIVE),  # unknown
        ("/v1/embeddings", {"error": OPENAI, "message": "no", "detail": "no"}),
        ("/embeddings", {"error": OPENAI, "message": "no", "detail": "no"}),
        ("/models", {"error": OPENAI, "message": "no", "detail": "no"}),
        ("/models/a/pipeline/feature-extraction", NATIVE),
        ("/v1/models/a\nb", {"error": OPENAI, "message": "no", "detail": "no"}),
        ("/v1/chat/completions", {"error": OPENAI, "message": "no", "detail": "no"}),
        ("/openai/deployments/a/embeddings", {"error": OPENAI, "message": "no", "detail": "no"}),
        ("/openai/nowhere", {"error": OPENAI, "message": "no", "detail": "no"}),
        ("/openais", NATIVE),
        ("/v1/embed", {"id": "1", "message": "no", **REST}),
        ("/v2/embed", {"id": "1", "message": "no", **REST}),
        ("/v2/rerank", {"id": "1", "message": "no", **REST}),
    ],
)
def test_the_path_selects_the_format(path: str, content: dict[str, Any]) -> None:
    assert orjson.loads(respond(FAULT, "1", path).body) == content


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadRequest("no"), "Validation"),
        (BadRequest("no", code="no_input"), "Empty"),
        (Unauthorized("no"), "Validation"),
        (TooLarge("no"), "Validation"),
        (Overloaded("later", retry_after=1), "Overloaded"),
        (EngineUnavailable("later", retry_after=1), "Unhealthy"),
        (EncodingFailed("no"), "Backend"),
        (TimedOut("no", retry_after=1), "Backend"),
    ],
)
def test_the_error_type_is_one_of_teis(error: ServiceError, kind: str) -> None:
    assert orjson.loads(respond(error, "1").body)["error_type"] == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadRequest("no"), "invalid_request_error"),
        (Unauthorized("no"), "invalid_request_error"),
        (UnknownModel("no"), "invalid_request_error"),
        (TooLarge("no"), "invalid_request_error"),
        (Overloaded("later", retry_after=1), "rate_limit_error"),
        (EngineUnavailable("later", retry_after=1), "server_error"),
    ],
)
def test_the_type_distinguishes_invalid_requests_from_temporary_errors(
    error: ServiceError, kind: str
) -> None:
    assert describe(error)["type"] == kind


@pytest.mark.parametrize("error", [EncodingFailed("no"), NotFinite("no", index=1)])
def test_permanent_failures_tell_clients_not_to_retry(
    error: ServiceError,
) -> None:
    assert respond(error, "1").headers["x-should-retry"] == "false"


@pytest.mark.parametrize("error", [InternalError("no"), EngineUnavailable("no", retry_after=1)])
def test_temporary_failures_leave_the_retry_to_the_client(error: ServiceError) -> None:
    assert "x-should-retry" not in respond(error, "1").headers


def test_ollamas_go_client_reads_the_status_of_a_wrong_key() -> None:
    content = orjson.loads(respond(Unauthorized("no"), "1", "/api/embed").body)
    assert content["status"] == content["error"] == "no"
    assert "status" not in orjson.loads(respond(BadRequest("no"), "1", "/api/embed").body)
    assert "status" not in orjson.loads(respond(Unauthorized("no"), "1", "/embed").body)
