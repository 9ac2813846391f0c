"""Errors of exceptions, and the formats of errors."""

import errno

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
from embedwell.http.error_responses import (
    NATIVE,
    OLLAMA,
    describe,
    respond,
    to_service_error,
)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named(number: int) -> None:
    error = to_service_error(OSError(number, "written"))
    assert (error.status, error.code) == (507, "disk_full")
    assert to_service_error(OSError(errno.EIO, "written")).code == "internal_error"


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
    content = orjson.loads(respond(Unauthorized("no"), "1", OLLAMA).body)
    assert content["status"] == content["error"] == "no"
    assert "status" not in orjson.loads(respond(BadRequest("no"), "1", OLLAMA).body)
    assert "status" not in orjson.loads(respond(Unauthorized("no"), "1", NATIVE).body)
