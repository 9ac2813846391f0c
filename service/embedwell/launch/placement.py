"""Placement of the engines: the device, the processors and the number of threads of each."""

from collections.abc import Sequence
from pathlib import Path

from embedwell.engine.worker.cpus import within_quotas
from embedwell.settings.settings import Settings
from embedwell_models.encoder.threads import allowed_cpus

SYSTEM = Path("/sys/devices/system")
"""The folder in which Linux describes NUMA nodes."""

Placed = tuple[Settings, Path, Sequence[int]]
"""An engine's settings, the folder of its model, and the processors that it is bound to, if any."""


def place(
    settings: Settings, models: Sequence[tuple[Settings, Path]], system: Path = SYSTEM
) -> list[Placed]:
    """Return the engines: one for each model, or for each of several devices of the only model.

    Raises OSError for a NUMA node without a processor that this process may use.

    system: where the system describes its processors.
    """
    if not settings.devices:
        return [(options, folder, ()) for options, folder in models]
    [(options, folder)] = models
    devices = settings.devices.split(",")
    engines: list[Placed] = []
    for device in devices:
        kind, _, number = device.partition(":")
        if kind == "cpu":
            cpus = node_cpus(int(number), system) if number else ()
            share = len(cpus or allowed_cpus()) // devices.count(device)
            threads = settings.threads or within_quotas(share, len(devices))
            placed = options.model_copy(update={"device": kind, "threads": threads})
            engines.append((placed, folder, cpus))
        else:
            engines.append((options.model_copy(update={"device": device}), folder, ()))
    return engines


def node_cpus(node: int, system: Path = SYSTEM) -> list[int]:
    """Return the processors of a NUMA node that this process may use; raises OSError for none."""
    path = system / f"node/node{node}/cpulist"
    listed = path.read_text().strip() if path.exists() else ""
    ranges = [entry.partition("-") for entry in filter(None, listed.split(","))]
    cpus = {cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)}
    if not cpus & allowed_cpus():
        raise OSError(f"cpu:{node}: this process may use no processor of such a NUMA node")
    return sorted(cpus & allowed_cpus())
