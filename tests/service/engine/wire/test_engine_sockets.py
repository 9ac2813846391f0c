"""Tests of how an HTTP process connects to the engine."""

import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from embedwell.engine.wire.engine_sockets import (
    RunningTextCounts,
    accept_connection,
    handoff_pair,
    request_connection,
)
from tests.service.rig import running

ROOT = Path(__file__).parents[4]


def test_a_connection_has_an_end_in_the_requesting_process_and_one_in_the_engine() -> None:
    requesting, accepting = handoff_pair()
    with requesting, accepting:
        (host_end, running), (engine_end, engine_running) = (
            request_connection(requesting.fileno()),
            accept_connection(accepting),
        )
        with host_end, engine_end:
            host_end.sendall(b"a job")
            assert engine_end.recv(10) == b"a job"
            assert not engine_end.get_inheritable()
        engine_running.begin(7)
        assert 7 in running and 8 not in running


def test_connections_are_accepted_in_the_order_of_their_requests() -> None:
    requesting, accepting = handoff_pair()
    with requesting, accepting:
        for number in range(3):
            with request_connection(requesting.fileno())[0] as host_end:
                host_end.sendall(b"%d" % number)
        for number in range(3):
            with accept_connection(accepting)[0] as engine_end:
                assert engine_end.recv(10) == b"%d" % number


def test_a_request_that_is_refused_as_too_many_wait_leaks_no_descriptor() -> None:
    requesting, accepting = handoff_pair()
    with requesting, accepting:
        connections = []
        with pytest.raises(BlockingIOError):
            while True:
                connections.append(request_connection(requesting.fileno())[0])
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(BlockingIOError):
            request_connection(requesting.fileno())
        assert len(os.listdir("/proc/self/fd")) == before
        for connection in connections:
            connection.close()


def test_a_job_runs_while_a_text_of_it_is_computed() -> None:
    table = running()
    table.begin(5, 3)
    table.begin(5)
    table.end(5, 3)
    assert 5 in table and 6 not in table
    table.end(5)
    assert 5 not in table


def test_job_numbers_may_exceed_the_slots() -> None:
    table = running()
    table.begin(10**12)
    assert 10**12 in table and 10**12 + 1 not in table


def test_the_counts_of_a_process_outlive_it() -> None:
    program = (
        "import os, signal, sys;"
        "from embedwell.engine.wire.engine_sockets import RunningTextCounts;"
        "RunningTextCounts.attach(int(sys.argv[1])).begin(3); os.kill(os.getpid(), signal.SIGKILL)"
    )
    table, file = RunningTextCounts.create()
    with file:
        command = [sys.executable, "-c", program, str(file.fileno())]
        done = subprocess.run(command, pass_fds=[file.fileno()], cwd=ROOT, check=False)
        assert done.returncode == -signal.SIGKILL and 3 in table


def test_the_disk_space_of_the_table_is_allocated_at_the_start() -> None:
    _, file = RunningTextCounts.create()
    with file:
        assert os.fstat(file.fileno()).st_blocks * 512 >= mmap.PAGESIZE
