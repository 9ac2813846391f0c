"""JSON files of a model folder in the format of sentence-transformers."""

import json
from pathlib import Path
from typing import Any

SENTENCE_TRANSFORMERS = "sentence_transformers.models."


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON; create the folder of the file if it is missing."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def modules(*kinds: str) -> list[dict[str, Any]]:
    """Return the content of modules.json for these sentence-transformers modules, in order."""
    paths = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds[1:], 1))]
    return [
        {"idx": number, "name": str(number), "path": path, "type": SENTENCE_TRANSFORMERS + kind}
        for number, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
