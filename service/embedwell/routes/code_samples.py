"""Commands that send an example of each operation of the OpenAPI document."""

import json
import shlex
from typing import Any

ADDRESS = "localhost:8080"
"""Address of the server in the commands."""
EXTENSION = "x-codeSamples"
"""Field of an operation with its commands, which viewers of OpenAPI documents show."""


def code_sample(command: str) -> dict[str, Any]:
    """Build the field of an operation with its command."""
    return {EXTENSION: [{"lang": "Shell", "label": "curl", "source": command}]}


def curl(
    method: str, path: str, operation: dict[str, Any], schemas: dict[str, dict[str, Any]]
) -> str:
    """Return a curl command with the examples of an operation's path and body.

    schemas: the document's schemas, whose first example is the body. Raises LookupError without
        examples.
    """
    parameters = operation.get("parameters", ())
    values = {p["name"]: p["schema"]["examples"][0] for p in parameters if p["in"] == "path"}
    has_body = "requestBody" in operation
    is_implied = method == "get" or (method == "post" and has_body)
    words = ["curl", *([] if is_implied else ["-X", method.upper()])]
    words.append(f"{ADDRESS}{path.format(**values)}")
    if has_body:
        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        example = schemas[reference.rpartition("/")[2]]["examples"][0]
        words += ["-d", json.dumps(example, ensure_ascii=False)]
    return shlex.join(words)
