"""`embedwell service`, with a real systemd of a user."""

import os
import plistlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
import httpx
import pytest
from click.testing import CliRunner, Result

from embedwell.cli.commands import main
from embedwell.cli.options import settings_in_file
from embedwell.launch.socket_activation import LAUNCHD_NAME
from embedwell_desktop.launchd_agent import LaunchdAgent
from embedwell_desktop.service import _manager
from embedwell_desktop.systemd_units import SystemdUnits
from tests.conftest import Folder
from tests.programs import program
from tests.service.server import MAX_ISA

MANAGER = """
mount --make-rprivate / && mount -t tmpfs none /run && mkdir -p /run/systemd/system
exec /lib/systemd/systemd --user --log-target=console
"""
"""Starts a user's systemd in a container, too, which a service of the system would otherwise do."""


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folders of a user's own: the configuration, and that of running programs."""
    with tempfile.TemporaryDirectory() as runtime:  # a short path, as those of sockets must be
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        monkeypatch.setenv("HOME", str(tmp_path))
        yield tmp_path


@pytest.fixture
def manager(folders: Path) -> Iterator[None]:
    """A systemd that runs for the user of the tests."""
    systemctl = program("systemctl", "systemd")
    log = folders / "systemd.log"
    with log.open("wb") as output:
        unshare = ["unshare", "--mount", *(["--map-root-user"] if os.getuid() else [])]
        process = subprocess.Popen([*unshare, "sh", "-c", MANAGER], stdout=output, stderr=output)
    command = [systemctl, "--user", "show", "--property=Version"]
    try:
        deadline = time.monotonic() + 60
        while subprocess.run(command, capture_output=True, check=False).returncode:
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.skip(f"a user's systemd does not start here: {log.read_text()[-300:]}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(60)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["service", *arguments])


def state(unit: str) -> str:
    command = ["systemctl", "--user", "is-active", f"embedwell.{unit}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


@pytest.mark.usefixtures("manager")
def test_the_first_request_starts_the_server_until_the_service_is_removed(
    tiny_bert: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder of 100%h"
    folder.mkdir()
    shutil.copytree(tiny_bert(), folder / "model")
    (folder / ".env").write_text(
        f"EMBEDWELL_ISA={MAX_ISA}\nEMBEDWELL_STARTUP_CACHE=false\nEMBEDWELL_IDLE_EXIT=1h\n"
    )
    monkeypatch.chdir(folder)
    name = 'a "name" of $HOME and 100%t'
    installed = run("install", "./model", "--dtype", "float32", "--served-name", name)
    assert installed.exit_code == 0, installed.output
    unit = (tmp_path / "config" / "systemd" / "user" / "embedwell.service").read_text()
    assert '"--keep" "on_demand"' in unit and "--idle-exit" not in unit, "the file sets it"
    socket = Path(installed.stdout.strip())
    assert socket.is_socket() and socket.stat().st_mode & 0o777 == 0o600
    assert (state("socket"), state("service")) == ("active", "inactive")
    with httpx.Client(
        transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://localhost", timeout=120
    ) as client:
        assert client.post("/embed", json={"inputs": "a"}).status_code == 200
        assert client.get("/info").json()["model"] == name
    assert state("service") == "active"
    assert run("status").exit_code == 0
    removed = run("remove")
    assert removed.exit_code == 0, removed.output
    assert (state("socket"), state("service")) == ("inactive", "inactive")
    assert not socket.exists() and not [*(tmp_path / "config").rglob("embedwell.*")]
    assert "run `embedwell service install`" in run("status").output


def test_the_units_are_valid(folders: Path) -> None:
    SystemdUnits().write([program("sh", "dash"), "-c", 'echo "$PATH" \\ 100%'], folders)
    units = sorted((folders / "config").rglob("embedwell.*"))
    command = [program("systemd-analyze", "systemd"), "--user", "verify", *map(str, units)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert len(units) == 2 and done.returncode == 0 and not done.stderr


@pytest.mark.usefixtures("folders")
def test_without_a_systemd_of_the_user_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("systemctl", "systemd")
    failed = run("install")
    assert failed.exit_code == 1 and "log in as this user without su or sudo" in failed.output
    monkeypatch.setenv("PATH", str(tmp_path))
    failed = run("install")
    assert "systemctl is not installed" in failed.output and "`embedwell local`" in failed.output
    assert not (tmp_path / "config").exists()


def test_units_of_somebody_else_are_kept_and_ours_are_private(folders: Path) -> None:
    units = SystemdUnits()
    units.write(["serve"], folders)
    written = sorted((folders / "config").rglob("embedwell.*"))
    assert [unit.stat().st_mode & 0o777 for unit in written] == [0o600, 0o600]
    units.write(["serve"], folders)
    for unit in written:
        unit.write_text("[Unit]\n")
        with pytest.raises(click.ClickException, match="rename or remove it"):
            units.write(["serve"], folders)
        assert unit.read_text() == "[Unit]\n"


def test_the_env_file_of_the_folder_may_set_what_the_service_sets_by_default(
    tmp_path: Path,
) -> None:
    file = tmp_path / ".env"
    file.write_text("embedwell_keep=always\nEMBEDWELL_IDLE_EXIT=1h\nOTHER=1\n")
    assert settings_in_file(str(file)) == {"keep", "idle_exit"}
    assert settings_in_file(str(tmp_path / "none")) == set()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--port", "80"], "embedwell.sock; leave out --port"),
        (["--dtyp", "int8"], "No such option"),
    ],
)
def test_an_option_that_the_service_cannot_have_is_refused(
    options: list[str], message: str
) -> None:
    refused = run("install", *options)
    assert refused.exit_code == 2 and message in refused.output


def test_the_agent_of_launchd_lets_the_first_request_start_the_server(folders: Path) -> None:
    agent = LaunchdAgent()
    agent.write(["python", "serve"], Path("/a folder"))
    written = plistlib.loads((folders / "Library/LaunchAgents/embedwell.plist").read_bytes())
    assert written["ProgramArguments"] == ["python", "serve"]
    assert written["WorkingDirectory"] == "/a folder"
    [(name, listener)] = written["Sockets"].items()
    assert listener == {"SockPathName": str(agent.socket), "SockPathMode": 0o600}
    assert name == LAUNCHD_NAME
    assert not written.keys() & {"RunAtLoad", "KeepAlive"}, "it would not wait for a request"


def test_a_system_without_a_manager_has_a_line_for_docker() -> None:
    with pytest.raises(click.ClickException, match="use Docker: docker run -d"):
        _manager("docker run -d", "win32")
