"""Options of both clients, and the attempts that they repeat."""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypedDict

import httpx

AttemptResult = httpx.Response | httpx.RequestError
"""The response to an attempt, or the exception if there is none."""

RETRYABLE_STATUSES = (429, 502, 503)  # 502: a gateway reached no server
RETRYABLE_ERRORS = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.ConnectTimeout)
MAX_DELAY = 30.0  # seconds before the next attempt
MAX_JITTER = 0.25  # share of a delay; clients that were rejected together should not retry together

_WITHOUT_PROXY = {f"all://{host}": None for host in ("localhost", "127.0.0.1", "[::1]")}
"""This machine, as httpx writes it: a proxy (HTTP_PROXY) would look for the server on its own."""

DEFAULT_MODEL = "all-MiniLM-L6-v2"
"""The model of a local server, unless another is chosen."""


class SendOptions(TypedDict, total=False):
    """Options of a client of the local server; ClientOptions explains them."""

    timeout: float
    batch: int
    retries: int


class AsyncSendOptions(SendOptions, total=False):
    """The same for AsyncClient."""

    concurrency: int


@dataclass(eq=False)
class ClientOptions:
    """The address of the server, and how requests are sent.

    batch: maximum texts of a request.
    retries: further attempts if the server is busy or unreachable (429, 502, 503), or the
        connection breaks. The client waits for the seconds of Retry-After, and at least 0.5, 1, 2,
        4, 8 s and so on up to 30 s.
    timeout: seconds for an attempt; the server itself times out after 60.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    _: KW_ONLY
    timeout: float = 90.0
    batch: int = 64
    retries: int = 5
    _limits: Mapping[str, int] = field(default_factory=dict, init=False, repr=False)

    @property
    def httpx_arguments(self) -> dict[str, Any]:
        """Return the keyword arguments for the httpx client.

        Raises ValueError for an address without http:// or https://.
        """
        if not self.url.lower().startswith(("http://", "https://")):
            raise ValueError(f"{self.url!r}: the address must begin with http:// or https://")
        headers = {b"user-agent": _user_agent()}
        if self.api_key is not None:
            headers[b"authorization"] = f"Bearer {self.api_key}".encode()
        return {
            "base_url": self.url,
            "headers": headers,
            "timeout": self.timeout,
            "mounts": _WITHOUT_PROXY,
            # The certificates take longer to read than a request. No redirect leads to https.
            "verify": self.url.lower().startswith("https://"),
        }


def _user_agent() -> bytes:
    try:
        return b"embedwell/" + version("embedwell").encode()
    except PackageNotFoundError:  # sources without an installation
        return b"embedwell"


def is_retryable(result: AttemptResult) -> bool:
    """Return whether another attempt may succeed."""
    if isinstance(result, httpx.Response):
        return result.status_code in RETRYABLE_STATUSES
    return isinstance(result, RETRYABLE_ERRORS)


def retry_delay(
    result: AttemptResult, attempt: int, jitter: Callable[[], float] = random.random
) -> float:
    """Return the seconds until the next attempt: Retry-After, and at least twice as many each time.

    https://www.rfc-editor.org/rfc/rfc9110#field.retry-after

    attempt: 0 for the first one.
    jitter: returns 0 to 1, the share of MAX_JITTER to add.
    """
    retry_after = (
        result.headers.get("retry-after", "") if isinstance(result, httpx.Response) else ""
    )
    seconds = float(retry_after) if retry_after.isdecimal() else _until(retry_after)
    least: float = 0.5 * 2 ** min(attempt, 9)
    return min(max(seconds, least), MAX_DELAY) * (1 + MAX_JITTER * jitter())


def _until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except ValueError:
        return 0.0
