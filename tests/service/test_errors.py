"""What the kinds of errors are called."""

import pytest

from service.errors import (
    BadRequest,
    EngineLost,
    Overloaded,
    ServiceError,
    TooLarge,
    Unauthorized,
    UnknownModel,
    describe,
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
