"""The processors that this process may use, and their physical cores."""

import os
from collections.abc import Collection
from pathlib import Path

SYSTEM = Path("/sys/devices/system")
"""Where Linux describes processors and NUMA nodes."""


def allowed_cpus() -> set[int]:
    """Return the numbers of the processors of the affinity mask; where there is none, of all."""
    has_affinity = hasattr(os, "sched_getaffinity")  # not on macOS
    return os.sched_getaffinity(0) if has_affinity else {*range(os.cpu_count() or 1)}


def count_cores(cpus: Collection[int], system: Path = SYSTEM) -> int:
    """Return the number of physical cores of some processors.

    Hyperthreads of a core share the units that multiply, so a second thread on it gains little.
    Where the system does not tell, each processor counts as a core.
    """
    return len({_siblings(cpu, system) for cpu in cpus})


def _siblings(cpu: int, system: Path) -> str:
    """Return the list of the processors of a core, as the system writes it."""
    try:
        return (system / f"cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)
