"""A Ray cluster of several nodes, each a set of processes of this machine."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
from ray.cluster_utils import Cluster


@contextmanager
def ray_cluster(nodes: int, cpus: int = 1) -> Iterator[Cluster]:
    """A cluster of nodes with some processors each, the first of which is the head."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    node: dict[str, Any] = {"num_cpus": cpus, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        for _ in range(nodes - 1):
            cluster.add_node(**node)
        yield cluster
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


def kill_process(name: str) -> None:
    """Kill one process whose title begins so, as Ray titles its actors."""
    for process in psutil.Process().children(recursive=True):  # of this test's cluster alone
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since, as zombies have
            if " ".join(process.cmdline()).startswith(name):
                process.kill()
                process.wait()
                return
    raise LookupError(name)
