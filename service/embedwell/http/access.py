"""Access to the server: API keys, and the hosts and origins of requests from browsers.

Any web page can make a browser send a POST of text/plain to any address; the browser names the page
in Origin. DNS rebinding can resolve a page's own host name to this server's address. Such requests
look like those of the server's own page, except for the name in Host.
"""

import hmac
import re
import socket
from collections.abc import Sequence
from functools import lru_cache

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from embedwell.errors import Forbidden, Unauthorized
from embedwell.http.request_context import Headers
from embedwell.settings.setting_types import is_ip_address, is_loopback

_KEY_ADVICE = "send the server's key as 'Authorization: Bearer KEY'"
_STANDARD_PORTS = {"http": ":80", "https": ":443"}
_LOCAL_SUFFIXES = ".internal,.local,.localhost"
"""Ends of names that public DNS does not have; Docker and Podman give such names to their host."""

_LOCAL_ORIGIN = (
    r"(?i)(?:app|file|tauri|vscode-file|vscode-webview)://.*"
    r"|(?:chrome|moz|ms-browser|safari|safari-web)-extension://.+"
    r"|https?://(?:localhost|tauri\.localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(?::\d{1,5})?"
)
"""Regular expression of an origin that no public web page has.

Those are pages of this machine, desktop programs and extensions: the ones that Ollama allows by
default, with IPv6 and the host of Tauri's pages on Windows. A browser sets Origin by itself, so a
page cannot claim another one.
"""


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
            raise Unauthorized(f"Incorrect API key provided: {_KEY_ADVICE}")


def _credentials(headers: Headers) -> tuple[bytes, bytes]:
    """Return the scheme and the token of a request; raises Unauthorized if there is none."""
    if b"authorization" in headers:
        scheme, _, token = headers[b"authorization"].partition(b" ")
        return scheme, token
    if b"api-key" in headers:
        return b"bearer", headers[b"api-key"]
    raise Unauthorized(f"No API key provided: {_KEY_ADVICE}")


def is_local_origin(origin: str) -> bool:
    """Return whether an origin is local; `null`, which any page can have, is not."""
    return re.fullmatch(_LOCAL_ORIGIN, origin) is not None


class BrowserChecks:
    """Checks that requests have allowed host names and origins."""

    def __init__(self, hosts: str, origins: str) -> None:
        """hosts: comma-separated names, ends of names from their dot on, or * for any.

        origins: allowed origins of other pages, or *.
        """
        names = hosts.split(",")
        self._suffixes = tuple(name for name in names if name.startswith("."))
        self._names = frozenset(names).difference(self._suffixes)
        self._origins = frozenset(origins.split(","))
        self._any_host, self._any_origin = "*" in self._names, "*" in self._origins
        self._allowed = lru_cache(maxsize=64)(self._is_allowed)

    @property
    def allow_all(self) -> bool:
        """Whether every request passes."""
        return self._any_host and self._any_origin

    @classmethod
    def of(cls, host: str, allowed_hosts: str, origins: str, has_key: bool) -> "BrowserChecks":
        """Create the checks for the settings host, allowed_hosts and cors_origins.

        With an API key every page is allowed, because a foreign page does not know the key. Without
        a key, the host names of a server on a loopback address are known; those of any other server
        are not.
        """
        if not allowed_hosts:
            name = socket.gethostname().lower()
            own_names = f"{name},{name.partition('.')[0]},{_LOCAL_SUFFIXES}"
            allowed_hosts = own_names if is_loopback(host) and not has_key else "*"
        return cls(allowed_hosts, "*" if has_key else origins)

    def check(self, headers: Headers) -> None:
        """Raise Forbidden for a host or an origin that is not allowed."""
        host = headers.get(b"host")  # browsers always send Host
        if not self._any_host and host is not None and not self._allowed(host):
            raise Forbidden(
                f"host {host.decode('latin-1')!r} is not allowed; list it in "
                "EMBEDWELL_ALLOWED_HOSTS, or set EMBEDWELL_API_KEY",
                code="host_not_allowed",
            )
        if b"origin" in headers and not self._any_origin:
            self._check_origin(headers[b"origin"].decode("latin-1").lower(), headers)

    def _check_origin(self, origin: str, headers: Headers) -> None:
        scheme, _, address = origin.partition("://")
        standard = _STANDARD_PORTS.get(scheme, "")
        hosts = (headers.get(name, b"") for name in (b"host", b"x-forwarded-host"))
        names = (host.partition(b",")[0].strip().decode("latin-1").lower() for host in hosts)
        own = {name.removesuffix(standard) for name in names}
        is_own = address and address.removesuffix(standard) in own
        if not (is_own or origin in self._origins or is_local_origin(origin)):
            raise Forbidden(
                f"origin {origin!r} is not allowed; list it in EMBEDWELL_CORS_ORIGINS, or set "
                "EMBEDWELL_API_KEY",
                code="origin_not_allowed",
            )

    def _is_allowed(self, host: bytes) -> bool:
        """Return whether a host is listed, localhost, or an address, which cannot be rebound."""
        name = _host_name(host.decode("latin-1").lower())
        return (
            name in self._names
            or name == "localhost"
            or name.lstrip(".").endswith(self._suffixes)
            or is_ip_address(name)
        )


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".")


def with_cors(app: ASGIApp, origins: str, exposed_headers: Sequence[str]) -> ASGIApp:
    """Let pages of these origins, and local ones, read responses.

    https://fetch.spec.whatwg.org/#cors-protocol
    All headers are allowed: clients send many, and no header that a browser adds by itself, such as
    a cookie, grants access here.

    exposed_headers: headers of responses that scripts may read.
    """
    cors = CORSMiddleware(
        app,
        allow_origins=origins.split(",") if origins else (),
        allow_methods=("DELETE", "GET", "HEAD", "POST"),
        allow_headers=("*",),
        allow_origin_regex=_LOCAL_ORIGIN,
        expose_headers=exposed_headers,
    )
    return cors if origins else LocalCors(app, cors)


class LocalCors:
    """ASGI application with CORS headers for local origins, without any for other requests."""

    def __init__(self, app: ASGIApp, cors: ASGIApp) -> None:
        """cors: `app` with CORS headers."""
        self._app, self._cors = app, cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        origin = dict(scope.get("headers", ())).get(b"origin")
        is_local = origin is not None and is_local_origin(origin.decode("latin-1"))
        await (self._cors if is_local else self._app)(scope, receive, send)
