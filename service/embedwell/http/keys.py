"""Check the API key of a request."""

import hmac
from collections.abc import Sequence

from embedwell.errors import Unauthorized
from embedwell.http.headers import Headers

_ADVICE = "send the server's key as 'Authorization: Bearer KEY'"


class ApiKeys:
    """API keys of a server, each of which grants access."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = [key.encode() for key in keys]

    def check(self, headers: Headers) -> None:
        """Raise Unauthorized unless the request has a key: a bearer token, or Azure's `api-key`.

        https://www.rfc-editor.org/rfc/rfc6750#section-2.1
        """
        scheme, token = _credentials(headers)
        # Every key is compared in constant time, so that the time reveals no key.
        matches = [hmac.compare_digest(token.strip(), key) for key in self._keys]
        # The scheme is case-insensitive: https://www.rfc-editor.org/rfc/rfc9110#section-11.1
        if scheme.lower() != b"bearer" or not any(matches):
            raise Unauthorized(f"Incorrect API key provided: {_ADVICE}")


def _credentials(headers: Headers) -> tuple[bytes, bytes]:
    """Return the scheme and the token of a request; raises Unauthorized if there is none."""
    if b"authorization" in headers:
        scheme, _, token = headers[b"authorization"].partition(b" ")
        return scheme, token
    if b"api-key" in headers:
        return b"bearer", headers[b"api-key"]
    raise Unauthorized(f"No API key provided: {_ADVICE}")
