"""The application under standard ASGI servers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest

from embedwell_models.embedder import Embedder
from tests.gateways import free_port
from tests.service.server import MAX_ISA, wait_ready

SERVERS = {
    "uvicorn": ["uvicorn", "--factory"],
    "granian": ["granian", "--interface", "asgi", "--factory"],
}


@contextmanager
def run_server(
    server: str, log: Path, port: int, **settings: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the application under an ASGI server until the end of the block."""
    settings_values = {"dtype": "float32", "isa": MAX_ISA, **settings}
    environment = {f"EMBEDWELL_{name.upper()}": value for name, value in settings_values.items()}
    program, *options = SERVERS[server]
    command = [
        sys.executable,
        "-m",
        program,
        *options,
        "--port",
        str(port),
        "embedwell.asgi:create",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **environment}
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(120)


@pytest.mark.parametrize(
    "server", ["uvicorn", pytest.param("granian", marks=pytest.mark.needs("granian"))]
)
def test_an_asgi_server_serves_vectors_and_stops_its_engine(
    server: str, embedder: Embedder, tmp_path: Path
) -> None:
    texts, port, log = ["Hello, world", "a b " * 300], free_port(), tmp_path / "log"
    with (
        run_server(server, log, port) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        wait_ready(client, process, log)
        response = client.post("/embed", json={"inputs": texts})
        assert client.get("/nothing").json()["code"] == "not_found"
        assert client.get("/openapi.json").json()["info"]["title"] == "embedwell"
        processes = psutil.Process(process.pid).children(recursive=True)
    np.testing.assert_array_equal(np.float32(response.json()), embedder.embed(texts))
    assert response.headers["x-truncated"] == "1"
    assert processes and not psutil.wait_procs(processes, 60)[1]
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"model": "/no/such/folder"},
            "Error: EMBEDWELL_MODEL in the environment: no model '/no/such/folder'",
        ),
        (
            {"dtype": "float8"},
            "Error: EMBEDWELL_DTYPE in the environment: 'float8': Input should be",
        ),
    ],
)
def test_an_invalid_setting_ends_the_server_with_a_message(
    tmp_path: Path, settings: dict[str, str], message: str
) -> None:
    log = tmp_path / "log"
    with run_server("uvicorn", log, free_port(), **settings) as process:
        assert process.wait(60) != 0
    assert message in log.read_text() and "Traceback" not in log.read_text()


@pytest.mark.full
def test_an_engine_that_cannot_start_ends_the_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with run_server("uvicorn", log, free_port(), dtype="float16") as process:
        process.wait(120)
    assert "not supported" in log.read_text()
