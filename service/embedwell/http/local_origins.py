"""Origins that no public web page has: pages of this machine, desktop programs and extensions.

They are those that Ollama allows by default, with IPv6 and the host of Tauri's pages on Windows. A
browser sets Origin by itself, so a page cannot claim another one.
"""

import re

PATTERN = (
    r"(?i)(?:app|file|tauri|vscode-file|vscode-webview)://.*"
    r"|(?:chrome|moz|ms-browser|safari|safari-web)-extension://.+"
    r"|https?://(?:localhost|tauri\.localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(?::\d{1,5})?"
)
"""Regular expression of a whole origin."""

_LOCAL = re.compile(PATTERN)


def is_local_origin(origin: str) -> bool:
    """Return whether an origin is local; `null`, which any page can have, is not."""
    return _LOCAL.fullmatch(origin) is not None
