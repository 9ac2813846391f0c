"""Processors of NUMA nodes."""

from pathlib import Path

from embedwell_models.encoder.cpus import allowed_cpus

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
