"""Tests of the table of jobs that are being computed."""

import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

from embedwell.engine.wire.running_text_counts import RunningTextCounts
from tests.service.rig import running

ROOT = Path(__file__).parents[4]


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
        "from embedwell.engine.wire.running_text_counts import RunningTextCounts;"
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
