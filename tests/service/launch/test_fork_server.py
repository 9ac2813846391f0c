"""Tests of how an engine starts, and fails to."""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import psutil
import pytest

from embedwell.engine.wire.spec import EngineSpec
from embedwell.launch.fork_server import run_engine
from embedwell.launch.supervised import EXIT_PERMANENT_FAILURE
from embedwell_models.cpu_backend import library


def spec(folder: Path, threads: int = 1) -> EngineSpec:
    choices = ("cpu", "float32", "auto", "auto", "auto", "auto")
    return EngineSpec(str(folder), *choices, threads, True, 0, 0, 0, 1)


def test_an_unexpected_error_is_logged_and_prevents_a_restart(
    minilm_folder: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_engine(spec(minilm_folder, threads=-1))  # which settings do not let through
    assert ended.value.code == EXIT_PERMANENT_FAILURE
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.message == "the model cannot be loaded" and record.exc_info
    assert '"event":"failed","reason":"the model cannot be loaded: ' in capfd.readouterr().out


def test_an_error_that_may_be_temporary_allows_a_restart(
    minilm_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "file").open("wb") as file, pytest.raises(OSError, match="non-socket"):
        run_engine(replace(spec(minilm_folder), accept_fd=file.fileno()))
    assert '"event":"failed"' in capfd.readouterr().out


@contextmanager
def fork_server(
    engines_need_torch: bool,
) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """A fork server that is ready, and the socket for requests to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    fd = theirs.fileno()
    with (
        ours,
        theirs,
        subprocess.Popen(
            [sys.executable, "-m", "embedwell.launch.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[fd],
            env={"OPENBLAS_NUM_THREADS": "1", **os.environ},
        ) as server,
    ):
        assert server.stdin and server.stdout
        server.stdin.write(orjson.dumps([fd, "info", "text", engines_need_torch]) + b"\n")
        server.stdin.flush()
        assert orjson.loads(server.stdout.readline()) == {"event": "ready"}
        yield server, ours


@pytest.mark.full
@pytest.mark.parametrize("engines_need_torch", [False, True])
def test_torch_is_loaded_before_a_fork_only_if_engines_need_it(engines_need_torch: bool) -> None:
    with fork_server(engines_need_torch) as (server, _):
        process = psutil.Process(server.pid)
        loaded = any("libtorch" in each.path for each in process.memory_maps())
        assert server.stdin and process.num_threads() == 1  # a fork copies no other threads
        server.stdin.close()
    assert loaded == (engines_need_torch or library.best_isa("float32") is None)


@pytest.mark.full
def test_a_process_that_does_not_notice_the_end_of_the_server_is_killed() -> None:
    unread, never_closed = os.pipe()  # a process that waits for its input, as if it hung
    with fork_server(engines_need_torch=False) as (server, requests):
        assert server.stdin and server.stdout
        socket.send_fds(requests, [b"7"], [unread, unread])
        forked = orjson.loads(server.stdout.readline())
        assert (forked["event"], forked["number"]) == ("forked", 7)
        process = psutil.Process(forked["pid"])
        server.stdin.close()
        _, alive = psutil.wait_procs([process], 30)
        os.close(never_closed)
    os.close(unread)
    assert not alive
