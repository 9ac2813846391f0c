"""Names of files and batches."""

import re
import secrets
import time

FILE, BATCH, REQUEST = "file-", "batch_", "batch_req_"
LOCK = "lock"
"""The file in the folder of batches that the process which computes them has locked."""
_DIGITS = re.compile(r"[0-9a-f]{24}")


def new_id(prefix: str) -> str:
    """Create a name that sorts by the time at which it was created."""
    return f"{prefix}{time.time_ns():016x}{secrets.token_hex(4)}"


def is_id(text: str, prefix: str) -> bool:
    """Whether a text has the form of a name, and so is safe as part of a path."""
    return text.startswith(prefix) and _DIGITS.fullmatch(text.removeprefix(prefix)) is not None
