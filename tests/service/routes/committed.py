"""The OpenAPI document of the repository, its examples, and whether a response is as it says."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
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


def run_example(
    method: str,
    path: str,
    url: str,
    folder: Path,
    replaced: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Run the curl command of an operation in a folder; raises CalledProcessError for a failure.

    replaced: parts of the command, such as ids, and what this server has instead.
    """
    [sample] = DOCUMENT["paths"][path][method]["x-codeSamples"]
    command = sample["source"].replace("localhost:8080", url)
    for part, instead in replaced.items():
        assert part in command
        command = command.replace(part, instead)
    arguments = "--fail-with-body --silent --show-error --output response"
    command = command.replace("curl ", f"curl {arguments} ", 1)
    subprocess.run(["bash", "-c", command], cwd=folder, check=True)


def check_schema(schema: Any, value: Any) -> None:
    """Check a value against a schema of the document."""
    full_schema = {**schema, "components": DOCUMENT["components"]}
    jsonschema_rs.Draft202012Validator(full_schema).validate(value)
