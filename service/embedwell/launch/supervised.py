"""A supervised process: its name, exit status, input and reports; no large imports."""

import contextlib
import os
from pathlib import Path
from typing import Any

import orjson

# Exit status of a process that has logged why it will never start. Unlike 3, uvicorn's status for a
# failed start, no other program uses it.
EXIT_PERMANENT_FAILURE = os.EX_CONFIG
EXIT_TEMPORARY_FAILURE = os.EX_TEMPFAIL
"""Exit status of a process that has logged why it cannot start now."""
STOP_LINE = b"stop\n"
"""The last line of a process's input, unless the supervisor dies or replaces the process."""
REPLACE_LINE = b"replace\n"
"""The last line of a process's input if a successor starts as soon as the process has ended."""

HTTP_PROCESS, ENGINE = "embedwell-http", "embedwell-model"
"""Names of the processes, as ps and top show them: up to 15 characters."""


def name_process(name: str) -> None:
    """Name this process, where the system lets it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name)


def tell_supervisor(event: str, **details: Any) -> None:
    """Report an event to the supervisor, unless the supervisor has died."""
    line = orjson.dumps({"event": event, **details}) + b"\n"
    with contextlib.suppress(OSError):
        os.write(1, line)
