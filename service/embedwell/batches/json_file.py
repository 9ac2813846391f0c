"""Small JSON files that readers never see half written."""

import logging
import os
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

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
