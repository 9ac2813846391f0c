"""How many processors this process may really use."""

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def allotted(cgroup: Path = _CGROUP) -> int:
    """The processors of the affinity mask, or fewer where a cgroup quota says so; at least one."""
    visible = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(visible or 1, _quota(cgroup) or visible or 1))


def _quota(cgroup: Path) -> int:
    try:
        if (cgroup / "cpu.max").exists():  # version 2
            quota, period = (cgroup / "cpu.max").read_text().split()
        else:
            quota = (cgroup / "cpu/cpu.cfs_quota_us").read_text()
            period = (cgroup / "cpu/cpu.cfs_period_us").read_text()
        return -(-int(quota) // int(period))  # 1.5 processors keep two threads busy
    except (OSError, ValueError):  # no cgroup, or "max"
        return 0
