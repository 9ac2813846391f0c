"""Imports of an HTTP process, which are most of its start and of its memory."""

import subprocess
import sys

CHECK = """
import sys

import embedwell.launch.http_process
from fastapi.openapi.models import OpenAPI
from pydantic import BaseModel

class Model(BaseModel):
    number: int

assert "prometheus_client" not in sys.modules, "metrics were not asked for"
assert not OpenAPI.__pydantic_complete__, "nor the OpenAPI document"
assert Model.__pydantic_complete__, "other models are built when they are defined"
assert OpenAPI(openapi="3.1.0", info={"title": "a", "version": "1"}).info.title == "a"
"""


def test_what_most_servers_never_use_is_not_imported_or_built() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECK], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
