"""Commands of embedwell that run one after the other in another process, as it starts slowly."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_INVOKE_ALL = """
import json, sys
from click.testing import CliRunner
from embedwell.cli.commands import main

for arguments in json.loads(sys.argv[1]):
    done = CliRunner().invoke(main, arguments)
    print(json.dumps({"returncode": done.exit_code, "stdout": done.stdout, "stderr": done.stderr}))
"""


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


def run_commands(
    folder: Path, *commands: Sequence[str], setup: str = "", **environment: str
) -> list[Done]:
    """Run commands in a folder, after the program `setup`."""
    done = subprocess.run(
        [sys.executable, "-c", setup + _INVOKE_ALL, json.dumps(commands)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Done(**json.loads(line)) for line in done.stdout.splitlines()]
