"""JSON files of a folder, as sentence-transformers reads them."""

import json
from pathlib import Path
from typing import Any

SENTENCE_TRANSFORMERS = "sentence_transformers.models."


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
