"""An agent of launchd on macOS, whose socket starts the server with the first request.

man 5 launchd.plist
"""

import os
import plistlib
import subprocess
from pathlib import Path

import click

from embedwell.launch.socket_activation import LAUNCHD_NAME

_LABEL = "embedwell"


class LaunchdAgent:
    """The agent's file in the user's folder."""

    def __init__(self) -> None:
        library = Path.home() / "Library"
        self._file = library / "LaunchAgents" / f"{_LABEL}.plist"
        self._log = library / "Logs" / f"{_LABEL}.log"
        self.socket = library / "Caches" / f"{_LABEL}.sock"
        self._domain = f"gui/{os.getuid()}"

    def install(self, command: list[str], folder: Path) -> list[str]:
        """Write the file and start the agent, in place of the one that runs."""
        self.write(command, folder)
        subprocess.run(
            ["/bin/launchctl", "bootout", f"{self._domain}/{_LABEL}"],
            capture_output=True,
            check=False,
        )
        _launchctl("bootstrap", self._domain, str(self._file))
        return []

    def write(self, command: list[str], folder: Path) -> None:
        """Write the file."""
        agent = {
            "Label": _LABEL,
            "ProgramArguments": command,
            "WorkingDirectory": str(folder),
            "Sockets": {
                LAUNCHD_NAME: {"SockPathName": str(self.socket), "SockPathMode": 0o600},
            },
            "StandardOutPath": str(self._log),
            "StandardErrorPath": str(self._log),
        }
        for path in (self._file, self._log, self.socket):
            path.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_bytes(plistlib.dumps(agent))

    def status(self) -> bool:
        """Print the state of the agent; return whether it is loaded."""
        self._require_file()
        printed = subprocess.run(
            ["/bin/launchctl", "print", f"{self._domain}/{_LABEL}"], check=False
        )
        return printed.returncode == 0

    def logs(self, follow: bool) -> None:
        """Print the log's last lines."""
        self._require_file()
        options = ["-n", "1000", *(["-F"] if follow else [])]
        subprocess.run(["/usr/bin/tail", *options, str(self._log)], check=False)

    def remove(self) -> None:
        """Stop the agent and remove its file."""
        self._require_file()
        _launchctl("bootout", f"{self._domain}/{_LABEL}")
        self._file.unlink()

    def _require_file(self) -> None:
        if not self._file.exists():
            raise click.ClickException(f"there is no {self._file}; run `embedwell service install`")


def _launchctl(*arguments: str) -> None:
    command = ["/bin/launchctl", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = " ".join(done.stderr.split())
        raise click.ClickException(f"`{' '.join(command)}` failed: {reason}; log in on the desktop")
