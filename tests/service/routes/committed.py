"""The OpenAPI document of the repository, and whether a response is as it says."""

import json
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs

FILE = Path(__file__).parents[3] / "docs" / "openapi.json"

DOCUMENT = json.loads(FILE.read_text(encoding="utf-8"))
JSON = "application/json"


def check(response: httpx.Response, method: str, path: str) -> None:
    """Check a response against the document. path: as it is there."""
    documented = DOCUMENT["paths"][path][method]["responses"][str(response.status_code)]
    if "$ref" in documented:
        documented = DOCUMENT["components"]["responses"][documented["$ref"].rpartition("/")[2]]
    for name, reference in documented["headers"].items():
        header = DOCUMENT["components"]["headers"][name] if "$ref" in reference else reference
        assert name in response.headers or not header.get("required"), name
    schema = documented["content"][response.headers["content-type"].partition(";")[0]]["schema"]
    if response.headers["content-type"] == JSON:
        check_schema(schema, response.json())


def check_schema(schema: Any, value: Any) -> None:
    """Check a value against a schema of the document."""
    full_schema = {**schema, "components": DOCUMENT["components"]}
    jsonschema_rs.Draft202012Validator(full_schema).validate(value)
