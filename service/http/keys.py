"""The API keys that a request may give."""

import hmac
from collections.abc import Sequence

from service.errors import Unauthorized
from service.http.headers import Headers

_HOW = "send the server's as 'Authorization: Bearer KEY'"


class Keys:
    """Any one of them opens; where there is none, everything is open."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = [key.encode() for key in keys]

    def check(self, headers: Headers) -> None:
        """Raises Unauthorized unless a key is given as a bearer's token.

        https://www.rfc-editor.org/rfc/rfc6750#section-2.1
        """
        if not self._keys:
            return
        if b"authorization" not in headers:
            raise Unauthorized(f"No API key provided: {_HOW}")
        scheme, _, given = headers[b"authorization"].partition(b" ")
        # All are compared, each in constant time: how long it takes says nothing of them.
        fitting = [hmac.compare_digest(given.strip(), key) for key in self._keys]
        # Its case does not matter: https://www.rfc-editor.org/rfc/rfc9110#section-11.1
        if scheme.lower() != b"bearer" or not any(fitting):
            raise Unauthorized(f"Incorrect API key provided: {_HOW}")
