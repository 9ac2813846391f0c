"""Origins, by which browsers tell whose page it is that asks."""

import re

_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]+))?")
_PORTS = {"http": "80", "https": "443"}


def origins(given: str) -> str:
    """Origins with commas between, or *, as browsers send them; raises ValueError."""
    if given.strip() in ("", "*"):
        return given.strip()
    return ",".join(_origin(each.strip()) for each in given.split(","))


def _origin(given: str) -> str:
    # https://www.rfc-editor.org/rfc/rfc6454#section-6.2: in small letters, without a known port.
    found = _ORIGIN.fullmatch(given.lower())
    if found is None:
        raise ValueError(
            f"{given!r} is no origin; give scheme://host or scheme://host:port, several with "
            "commas between, or * alone"
        )
    scheme, host, port = found.groups()
    known = port is None or port == _PORTS.get(scheme)
    return f"{scheme}://{host}" if known else f"{scheme}://{host}:{port}"
