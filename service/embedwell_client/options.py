"""Options of both clients."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any


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
        return {"base_url": self.url, "headers": headers, "timeout": self.timeout}


def _user_agent() -> bytes:
    try:
        return b"embedwell/" + version("embedwell").encode()
    except PackageNotFoundError:  # sources without an installation
        return b"embedwell"
