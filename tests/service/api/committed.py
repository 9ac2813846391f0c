"""The OpenAPI document of the repository."""

import json
from pathlib import Path

FILE = Path(__file__).parents[3] / "docs" / "openapi.json"

DOCUMENT = json.loads(FILE.read_text(encoding="utf-8"))
