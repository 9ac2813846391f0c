"""Tests of an error as an answer: what kind it is called, and whether it may pass."""

import pytest

from service.error_body import describe, respond
from service.errors import (
    BadRequest,
    EncodingFailed,
    EngineLost,
    NotFinite,
    Overloaded,
    ServiceError,
    TooLarge,
    Unauthorized,
    Unexpected,
    UnknownModel,
)


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


@pytest.mark.parametrize("error", [EncodingFailed("no"), NotFinite("no", index=1)])
def test_what_would_fail_again_says_so_to_clients_that_try_each_500_again(
    error: ServiceError,
) -> None:
    assert respond(error, "1").headers["x-should-retry"] == "false"


@pytest.mark.parametrize("error", [Unexpected("no"), EngineLost("no", retry=1)])
def test_what_may_pass_is_left_to_the_client(error: ServiceError) -> None:
    assert "x-should-retry" not in respond(error, "1").headers
