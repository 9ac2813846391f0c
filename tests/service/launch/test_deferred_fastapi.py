"""Test of the import of FastAPI in an HTTP process."""

import subprocess
import sys

MODELS = """
import embedwell.launch.http_process
from fastapi.openapi.models import OpenAPI
print(OpenAPI.__pydantic_complete__)
OpenAPI(openapi="3.1.0", info={"title": "a", "version": "1"})
print(OpenAPI.__pydantic_complete__)
"""


def test_a_model_of_the_openapi_document_is_built_by_its_first_use() -> None:
    command = [sys.executable, "-c", MODELS]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["False", "True"]
