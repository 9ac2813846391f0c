"""Processors that this process may use: by its affinity mask, quotas of cgroups, and NUMA nodes."""

import os
from collections.abc import Iterator
from pathlib import Path

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_CGROUP_MEMBERSHIP = Path("/proc/self/cgroup")


def allowed_cpus() -> set[int]:
    """Return the numbers of the processors of the affinity mask; where there is none, of all."""
    has_affinity = hasattr(os, "sched_getaffinity")  # not on macOS
    return os.sched_getaffinity(0) if has_affinity else {*range(os.cpu_count() or 1)}


def available_cpus() -> int:
    """Return the number of processors of the affinity mask, limited by cgroup quotas."""
    return within_quotas(len(allowed_cpus()))


def within_quotas(
    count: int,
    engines: int = 1,
    cgroup_root: Path = _CGROUP_ROOT,
    membership: Path = _CGROUP_MEMBERSHIP,
) -> int:
    """Limit a number of threads by the quotas of the cgroups, rounded down; return at least 1.

    Quotas of parent groups count, too. In a container the outermost visible group is its own.

    engines: number of engines that share the quotas.
    membership: the file that names the cgroups of this process.
    """
    quotas = _quotas(cgroup_root, membership)
    return max(1, min([count, *(quota // engines for quota in quotas)]))


def _quotas(cgroup_root: Path, membership: Path) -> Iterator[int]:
    for folder in _cgroups(cgroup_root, membership):
        try:
            if (folder / "cpu.max").exists():  # version 2
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota = (folder / "cpu.cfs_quota_us").read_text()
                period = (folder / "cpu.cfs_period_us").read_text()
            if int(quota) > 0:
                yield int(quota) // int(period)  # two threads wait for each other at 1.5 processors
        except (OSError, ValueError):  # no such group, or "max"
            continue


def _cgroups(cgroup_root: Path, membership: Path) -> Iterator[Path]:
    # https://www.man7.org/linux/man-pages/man7/cgroups.7.html, /proc/pid/cgroup
    entries = membership.read_text().splitlines() if membership.exists() else []
    for _, controllers, path in (entry.split(":", 2) for entry in entries):
        if controllers == "" or "cpu" in controllers.split(","):
            hierarchy = cgroup_root / "cpu" if controllers else cgroup_root
            group_path = hierarchy / path.lstrip("/")
            yield from (
                group
                for group in (group_path, *group_path.parents)
                if group.is_relative_to(hierarchy)
            )


SYSTEM_DEVICES = Path("/sys/devices/system")
"""The folder in which Linux describes NUMA nodes."""


def node_cpus(node: int, system: Path = SYSTEM_DEVICES) -> list[int]:
    """Return the processors of a NUMA node that this process may use; raises OSError for none."""
    path = system / f"node/node{node}/cpulist"
    listed = path.read_text().strip() if path.exists() else ""
    ranges = [entry.partition("-") for entry in filter(None, listed.split(","))]
    cpus = {cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)}
    if not cpus & allowed_cpus():
        raise OSError(f"cpu:{node}: this process may use no processor of such a NUMA node")
    return sorted(cpus & allowed_cpus())
