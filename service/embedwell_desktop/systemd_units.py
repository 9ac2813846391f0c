"""A service of this user's systemd, whose socket starts the server with the first request.

https://www.freedesktop.org/software/systemd/man/latest/systemd.socket.html
"""

import getpass
import os
import subprocess
from pathlib import Path

import click

_SOCKET, _SERVICE = "embedwell.socket", "embedwell.service"
_LINGERING_USERS = Path("/var/lib/systemd/linger")

_MARK = "# Written by `embedwell service install`.\n"
_SOCKET_UNIT = """\
[Unit]
Description=Socket of the embedding server

[Socket]
ListenStream=%t/embedwell.sock
SocketMode=0600
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""
_SERVICE_UNIT = """\
[Unit]
Description=Embedding server

[Service]
ExecStart=:{command}
WorkingDirectory={folder}
"""


class SystemdUnits:
    """The two units in the user's folder."""

    def __init__(self) -> None:
        config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        self._folder = Path(config) / "systemd" / "user"
        runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
        self.socket = Path(runtime) / "embedwell.sock"

    def install(self, command: list[str], folder: Path) -> list[str]:
        """Write and start the units; return hints for the user."""
        _require_manager()
        self.write(command, folder)
        _systemctl("daemon-reload")
        _systemctl("stop", _SERVICE)  # the next request starts it with the new options
        _systemctl("enable", "--now", _SOCKET)
        if (_LINGERING_USERS / getpass.getuser()).exists():
            return []
        return ["It ends when you log out; `loginctl enable-linger` lets it run always."]

    def write(self, command: list[str], folder: Path) -> None:
        """Write the units."""
        quoted = " ".join(map(_quoted, command))
        unit = _SERVICE_UNIT.format(command=quoted, folder=str(folder).replace("%", "%%"))
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for name, text in ((_SOCKET, _SOCKET_UNIT), (_SERVICE, unit)):
                self._check_is_ours(name)
                (self._folder / name).touch(0o600)  # the command may contain a key
                (self._folder / name).write_text(_MARK + text, encoding="utf-8")
        except OSError as error:
            raise click.ClickException(f"cannot write {self._folder}: {error.strerror}") from None

    def status(self) -> bool:
        """Print the state of the units; return whether the socket is active."""
        self._require_units()
        _require_manager()
        command = ["systemctl", "--user", "--no-pager", "status", _SOCKET, _SERVICE]
        subprocess.run(command, check=False)
        is_active = ["systemctl", "--user", "--quiet", "is-active", _SOCKET]
        return subprocess.run(is_active, check=False).returncode == 0

    def logs(self, follow: bool) -> None:
        """Print the lines of the server in the journal."""
        self._require_units()
        command = ["journalctl", "--no-pager", f"--user-unit={_SERVICE}"]
        _run([*command, *(["--follow"] if follow else [])], capture=False)

    def remove(self) -> None:
        """Stop the units and remove them."""
        self._require_units()
        for name in (_SOCKET, _SERVICE):
            self._check_is_ours(name)
        _require_manager()
        _systemctl("disable", "--now", _SOCKET)
        _systemctl("stop", _SERVICE)
        for name in (_SOCKET, _SERVICE):
            (self._folder / name).unlink(missing_ok=True)
        _systemctl("daemon-reload")

    def _check_is_ours(self, name: str) -> None:
        """Raise ClickException for a unit that somebody else has written."""
        unit = self._folder / name
        if unit.exists() and not unit.read_text(encoding="utf-8").startswith(_MARK):
            raise click.ClickException(
                f"{unit} is not from `embedwell service install`; rename or remove it"
            )

    def _require_units(self) -> None:
        if not (self._folder / _SOCKET).exists():
            raise click.ClickException(
                f"there is no {self._folder / _SOCKET}; run `embedwell service install`"
            )


def _quoted(word: str) -> str:
    """Quote a word of a command for a unit, in which % begins a specifier."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("%", "%%") + '"'


def _require_manager() -> None:
    """Check that the user's systemd runs."""
    try:
        _systemctl("show", "--property=Version")
    except click.ClickException as error:
        raise click.ClickException(
            f"{error.message}; log in as this user without su or sudo, or, without systemd, let "
            "your programs start a server: `embedwell local`"
        ) from None


def _systemctl(*arguments: str) -> None:
    _run(["systemctl", "--user", *arguments], capture=True)


def _run(command: list[str], capture: bool) -> None:
    try:
        done = subprocess.run(command, capture_output=capture, text=True, check=False)
    except FileNotFoundError:
        raise click.ClickException(f"{command[0]} is not installed, a part of systemd") from None
    if done.returncode:
        reason = " ".join((done.stderr or "see the line above").split())
        raise click.ClickException(f"`{' '.join(command)}` failed: {reason}")
