"""Sockets that systemd or launchd hands over to a server."""

import ctypes
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hatch_build
from embedwell.launch.socket_activation import launchd_listeners, systemd_listeners
from tests.conftest import COMPILED, Folder
from tests.service.launch.health_checks import HealthChecks
from tests.service.server import UnixServer

START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "embed"}
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
"""A program that starts a service as systemd does, with a socket as descriptor 3."""


LAUNCHD = """
#include <cerrno>
#include <cstdlib>
#include <cstring>
extern "C" int launch_activate_socket(const char *name, int **descriptors, size_t *count) {
  if (STATUS) return STATUS;
  if (std::strcmp(name, "embedwell")) return ENOENT;
  *descriptors = (int *)std::malloc(sizeof(int));
  **descriptors = DESCRIPTOR;
  *count = 1;
  return 0;
}
"""
"""The function of macOS's system library by which launchd hands over a socket."""


def compiled_launchd(folder: Path, status: str, descriptor: int) -> ctypes.CDLL:
    """Compile a library whose function hands over a descriptor, or returns an error number."""
    compiler = hatch_build.compiler()
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    # A path of its own: a library that was loaded from the same path would be used again.
    source, library = folder / "launchd.cpp", folder / f"launchd-{status}.so"
    source.write_text(LAUNCHD)
    values = [f"-DSTATUS={status}", f"-DDESCRIPTOR={descriptor}"]
    subprocess.run([*compiler, *values, "-shared", "-fPIC", "-o", library, source], check=True)
    return ctypes.CDLL(str(library))


class ActivatedServer(UnixServer):
    """`embedwell serve` with a socket that is handed over."""

    def __init__(self, log: Path, listener: socket.socket, **settings: Any) -> None:
        super().__init__(log, Path(listener.getsockname()), **settings)
        self._listener = listener

    def launch(self) -> None:
        descriptor = self._listener.fileno()
        program = [sys.executable, "-c", START, str(descriptor), *self.command[1:]]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                program, stdout=log, stderr=log, env=self._environment, pass_fds=[descriptor]
            )


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listening socket that outlives the servers, as systemd's do."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(Path(folder) / "socket"))
        listener.listen()
        yield listener


def test_clients_of_a_server_that_ends_are_served_by_the_next(
    tiny_bert: Folder, listener: socket.socket, tmp_path: Path
) -> None:
    settings = {"model": tiny_bert(**COMPILED), "workers": 2, "unix_socket": "/not/used"}
    with HealthChecks(Path(listener.getsockname())) as checks:
        with ActivatedServer(tmp_path / "log", listener, idle_exit=1, **settings) as server:
            assert server.process.wait(120) == 0
            assert "no request came for 1 s" in server.log and "http://127" not in server.log
        before = checks.served
        with ActivatedServer(tmp_path / "next", listener, **settings) as server:
            assert server.post("/embed", {"inputs": "a"}).status_code == 200
            checks.stop()
    assert checks.served > before > 0 and not checks.failed


def test_sockets_for_another_process_are_not_taken() -> None:
    variables = {"LISTEN_PID": "1", "LISTEN_FDS": "1", "HOME": "/"}
    assert systemd_listeners(variables) == []
    assert variables == {"HOME": "/"}, "child processes would take them for theirs"


def test_a_descriptor_of_another_kind_is_refused() -> None:
    """In a process of its own, because the test's descriptor 3 is in use."""
    variables = {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "embed"}
    program = """
import os
from embedwell.launch.socket_activation import handed_over_listeners
os.environ["LISTEN_PID"] = str(os.getpid())
os.dup2(os.pipe()[0], 3)
handed_over_listeners()
"""
    command = [sys.executable, "-c", program]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("OSError: descriptor 3 (embed) of LISTEN_FDS is not a listening socket")


def test_the_socket_of_launchd_is_taken(listener: socket.socket, tmp_path: Path) -> None:
    library = compiled_launchd(tmp_path, "0", os.dup(listener.fileno()))
    [taken] = launchd_listeners(library)
    with taken:
        assert taken.getsockname() == listener.getsockname()
        assert not taken.get_inheritable()


@pytest.mark.parametrize("status", ["ESRCH", "ENOENT"])
def test_without_a_socket_of_launchd_none_is_taken(status: str, tmp_path: Path) -> None:
    assert launchd_listeners(compiled_launchd(tmp_path, status, -1)) == []


def test_a_socket_of_launchd_that_was_taken_before_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="launchd does not hand over its socket"):
        launchd_listeners(compiled_launchd(tmp_path, "EALREADY", -1))


def test_a_descriptor_of_launchd_of_another_kind_is_refused(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    library = compiled_launchd(tmp_path, "0", reader)
    with pytest.raises(OSError, match=r"\(embedwell\) of launchd is not a listening socket"):
        launchd_listeners(library)
    os.close(reader)
    os.close(writer)
