"""A folder that appears complete, or not at all."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from models.errors import ModelError

SENTENCE_TRANSFORMERS = "sentence_transformers.models."


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder, in a temporary one, that becomes `target` without an error.

    Raises ModelError if `target` exists, and OSError if it cannot be written.
    """
    if target.exists():
        raise ModelError(f"{target} exists already: delete it, or name another folder with -o")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".convert-") as name:
        scratch = Path(name) / target.name
        scratch.mkdir()
        yield scratch
        scratch.rename(target)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, and the file's folder if need be."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def modules(*kinds: str) -> list[dict[str, Any]]:
    """Return the content of modules.json for modules of sentence-transformers, in order."""
    paths = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds[1:], 1))]
    return [
        {"idx": number, "name": str(number), "path": path, "type": SENTENCE_TRANSFORMERS + kind}
        for number, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
