"""Check the API key of a request."""

import hmac
from collections.abc import Sequence

from embedwell.errors import Unauthorized
from embedwell.http.headers import Headers

_ADVICE = "send the server's as 'Authorization: Bearer KEY'"


class ApiKeys:
    """The keys of a server, any of which is accepted; without keys every request is."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = [key.encode() for key in keys]

    def check(self, headers: Headers) -> None:
        """Raise Unauthorized unless the request has a key as a bearer token.

        https://www.rfc-editor.org/rfc/rfc6750#section-2.1
        """
        if not self._keys:
            return
        if b"authorization" not in headers:
            raise Unauthorized(f"No API key provided: {_ADVICE}")
        scheme, _, token = headers[b"authorization"].partition(b" ")
        # All are compared, each in constant time, so that the time tells nothing of the keys.
        matches = [hmac.compare_digest(token.strip(), key) for key in self._keys]
        # The scheme's case does not matter: https://www.rfc-editor.org/rfc/rfc9110#section-11.1
        if scheme.lower() != b"bearer" or not any(matches):
            raise Unauthorized(f"Incorrect API key provided: {_ADVICE}")
