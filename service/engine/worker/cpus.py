"""How many processors this process may really use."""

import os
from collections.abc import Iterator
from pathlib import Path

_MOUNT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def allotted(mount: Path = _MOUNT, own: Path = _OWN) -> int:
    """The processors of the affinity mask, or fewer where a cgroup quota says so; at least one.

    own: the file that names the groups of this process. A quota of theirs or of a group around them
    counts; in a container the outermost that can be seen is its own.
    """
    visible = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min([visible or 1, *_quotas(mount, own)]))


def _quotas(mount: Path, own: Path) -> Iterator[int]:
    for folder in _groups(mount, own):
        try:
            if (folder / "cpu.max").exists():  # version 2
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota = (folder / "cpu.cfs_quota_us").read_text()
                period = (folder / "cpu.cfs_period_us").read_text()
            if int(quota) > 0:
                yield -(-int(quota) // int(period))  # 1.5 processors keep two threads busy
        except (OSError, ValueError):  # no such group, or "max"
            continue


def _groups(mount: Path, own: Path) -> Iterator[Path]:
    # https://www.man7.org/linux/man-pages/man7/cgroups.7.html, /proc/pid/cgroup
    connections = own.read_text().splitlines() if own.exists() else []
    for _, controllers, path in (connection.split(":", 2) for connection in connections):
        if controllers == "" or "cpu" in controllers.split(","):
            top = mount / "cpu" if controllers else mount
            inner = top / path.lstrip("/")
            yield from (group for group in (inner, *inner.parents) if group.is_relative_to(top))
