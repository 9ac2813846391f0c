"""The format of log messages."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from embedwell.http.failure_log import FailureLog
from embedwell.launch.logging import JsonFormatter
from tests.conftest import COMPILED, Folder
from tests.service.server import Server

PAGE = Path(__file__).parents[3] / "docs" / "observability.md"


def parsed(record: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter().format(record)
    assert "\n" not in line and line.isascii()
    fields: dict[str, Any] = json.loads(line)
    return fields


def test_a_message_is_a_line_of_json_with_its_time_in_utc() -> None:
    record = logging.makeLogRecord(
        {
            **{"name": "embedwell.it", "levelname": "WARNING", "created": 0.25, "process": 7},
            **{"msg": "cut off:\n%s", "args": ("a\udcff ü",), "color_message": "\x1b[0m"},
        }
    )
    assert parsed(record) == {
        "time": "1970-01-01T00:00:00.250+00:00",
        "level": "warning",
        "logger": "embedwell.it",
        "process": 7,
        "message": "cut off:\na\udcff ü",
    }


def test_the_traceback_of_an_exception_is_a_field() -> None:
    try:
        raise KeyError("missing")
    except KeyError:
        record = logging.makeLogRecord({"exc_info": sys.exc_info()})
    assert parsed(record)["exception"].endswith("KeyError: 'missing'")


def test_a_failed_request_has_its_id_path_and_status_as_fields(
    caplog: pytest.LogCaptureFixture,
) -> None:
    FailureLog().write("mine", "/embed", 503, "the engine is away")
    fields = parsed(caplog.records[0])
    assert [fields[name] for name in ("request_id", "path", "status")] == ["mine", "/embed", 503]
    [example] = re.findall(r"```json\n(.*)\n```", PAGE.read_text(encoding="utf-8"))
    assert list(json.loads(example)) == list(fields)


@pytest.mark.parametrize(
    "failure",
    ["1 / 0", "threading.Thread(target=lambda: 1 / 0).start()", "warnings.warn('ZeroDivision')"],
)
def test_nothing_that_python_reports_is_text_among_json(failure: str) -> None:
    program = (
        "import threading, warnings; from embedwell.launch.logging import configure_logging\n"
        f"configure_logging('info', 'json')\n{failure}"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    (line,) = process.stderr.splitlines()
    assert "ZeroDivision" in "".join(map(str, json.loads(line).values()))


def test_a_server_writes_only_json(tiny_bert: Folder, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"log_format": "json", "request_timeout": 1e-6, "prt": 1, "dytpe": 1}
    with Server(tmp_path / "log", model=tiny_bert(**COMPILED), **settings) as server:
        assert server.post("/embed", {"inputs": "a"}, **{"x-request-id": "mine"}).status_code == 504
        os.kill(server.engine, signal.SIGKILL)
        server.wait_until(lambda: "engine replaced" in server.log)
    lines = [json.loads(line) for line in server.log.splitlines()]
    loggers = {line["logger"] for line in lines}
    assert loggers >= {"embedwell_models.loading.loaded_model", "embedwell.launch.logging"}
    assert "uvicorn.error" not in loggers  # which would report each step of an ordinary start
    messages = {line["message"].split("\n")[0]: line["level"] for line in lines}
    assert any(message.startswith("the server stops after SIG") for message in messages)
    assert messages["engine replaced (restart 1)"] == "warning"
    for name, similar in ("PRT", "PORT"), ("DYTPE", "DTYPE"):
        text = f"warning: EMBEDWELL_{name} is not a setting and has no effect; did you mean "
        assert f"{text}EMBEDWELL_{similar}?" in messages
    (failed,) = [line for line in lines if line.get("request_id") == "mine"]
    assert (failed["path"], failed["status"]) == ("/embed", 504)
