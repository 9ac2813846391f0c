"""Processor time of another process, as Linux reports it."""

import os
from pathlib import Path

_PROCESSES = Path("/proc")
_STATE, _TICKS = 0, slice(11, 13)  # fields after the name in parentheses, see proc_pid_stat(5)
_RUNNING = "R"  # also while a thread waits for a processor


def running_seconds(pid: int) -> float | None:
    """Return the processor time that a process has had, if one of its threads is running.

    A thread that waits for a processor is running, too. Returns None for a process that sleeps, is
    stopped or has ended, and where the system has no /proc.
    """
    try:
        threads = [
            (thread / "stat").read_text(errors="replace").rpartition(")")[2].split()
            for thread in (_PROCESSES / str(pid) / "task").iterdir()
        ]
    except OSError:
        return None
    if not any(fields[_STATE] == _RUNNING for fields in threads):
        return None
    ticks = sum(int(field) for fields in threads for field in fields[_TICKS])
    return ticks / os.sysconf("SC_CLK_TCK")
