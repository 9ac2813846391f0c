"""Runs an example of the pages about clients against a server."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.service.server import HttpServer

DOCS = Path(__file__).parents[2] / "docs"

_NO_TELEMETRY = {"HF_HUB_DISABLE_TELEMETRY": "1", "HAYSTACK_TELEMETRY_ENABLED": "False"}
_NO_TELEMETRY |= {"ANONYMIZED_TELEMETRY": "False", "LANGSMITH_TRACING": "false"}
_NO_TELEMETRY |= {"MEM0_TELEMETRY": "False", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}

_ERROR_MESSAGE = """
def error_message(kind, request):
    try:
        request()
    except kind as error:
        return str(error)
    raise AssertionError("no error was raised")
"""


def run_program(server: HttpServer, code: str, result: str) -> Any:
    """Run a program in which every warning is an error, and return the value of an expression.

    It has a process of its own, as the tests make Hugging Face's client offline at its import, and
    as the frameworks import many modules.
    """
    program = f"{_ERROR_MESSAGE}\n{code}\nimport json\nprint(json.dumps({result}))"
    program = program.replace("http://localhost:8080", server.url)
    with tempfile.TemporaryDirectory() as home:  # some clients write files there
        process = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            env={**os.environ, **_NO_TELEMETRY, "HF_HUB_OFFLINE": "0", "HOME": home},
            capture_output=True,
            text=True,
            check=False,
        )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])
