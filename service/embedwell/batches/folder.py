"""Names and small JSON files in the folder of batches."""

import logging
import os
import re
import secrets
import time
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

FILE, BATCH, REQUEST = "file-", "batch_", "batch_req_"
LOCK = "lock"
"""Name of the lock file in the folder of batches; the process that computes them holds the lock."""
SPACE_LOCK = "space.lock"
"""Name of the lock file that a process holds while it reserves disk space."""
_DIGITS = re.compile(r"[0-9a-f]{24}")


def new_id(prefix: str) -> str:
    """Create an id that sorts by its creation time."""
    return f"{prefix}{time.time_ns():016x}{secrets.token_hex(4)}"


def is_id(text: str, prefix: str) -> bool:
    """Return whether a text has the form of an id, so that it is safe as part of a path."""
    return text.startswith(prefix) and _DIGITS.fullmatch(text.removeprefix(prefix)) is not None


def newest_first(folder: Path, prefix: str, after: str = "") -> list[str]:
    """Return the ids that name a folder's entries, the newest first.

    after: only ids before this one in time; "" for all.
    """
    ids = [name for name in os.listdir(folder) if is_id(name, prefix)]
    return sorted((id for id in ids if not after or id < after), reverse=True)


M = TypeVar("M", bound=BaseModel)

log = logging.getLogger(__name__)


def write_json(path: Path, content: BaseModel) -> None:
    """Replace a file atomically. Each file has one writer."""
    partial = path.with_name(f"{path.name}.new")
    with partial.open("wb") as file:
        file.write(content.model_dump_json().encode())
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_json(path: Path, kind: type[M]) -> M | None:
    """Read a file; None if it does not exist, or is damaged, which is logged."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        log.error("%s is damaged and ignored; delete its folder: %s", path, error)
        return None
