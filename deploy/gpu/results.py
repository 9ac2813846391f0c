"""The result files of the steps, in the folder OUT."""

import json
import os
import sys
from pathlib import Path
from typing import Any

OUT = Path(os.environ.get("OUT", "."))


def append_line(name: str, line: dict[str, Any]) -> None:
    """Append an object to a file of JSON lines, and print it."""
    text = json.dumps(line) + "\n"
    with (OUT / name).open("a", encoding="utf-8") as file:
        file.write(text)
    sys.stdout.write(text)
    sys.stdout.flush()


def read_lines(name: str) -> list[dict[str, Any]]:
    """Read a file of JSON lines; [] if there is none."""
    path = OUT / name
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_environment() -> dict[str, Any]:
    """Read env.json, which the hardware step writes; {} if there is none."""
    path = OUT / "env.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def brief(error: Exception) -> str:
    """Format an error as its class and the first line of its message."""
    message = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {message[0][:160]}"
