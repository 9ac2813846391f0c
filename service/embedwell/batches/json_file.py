"""Small JSON files that readers never see half written."""

import os
from pathlib import Path
from typing import Any

import orjson


def write_json(path: Path, content: Any) -> None:
    """Replace a file atomically. Each file has one writer."""
    partial = path.with_name(f"{path.name}.new")
    with partial.open("wb") as file:
        file.write(orjson.dumps(content))
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_json(path: Path) -> Any:
    """Read a file; None if it does not exist."""
    try:
        return orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None
