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
    """A cluster of a head without processors, and nodes with some."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=cpus, include_dashboard=False)
        yield cluster
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


def add_node_of_group(cluster: Cluster, group: str) -> Any:
    """Add a node of a processor, with the label of those that an autoscaler starts."""
    os.environ["RAY_NODE_TYPE_NAME"] = group
    try:
        return cluster.add_node(num_cpus=1, include_dashboard=False)
    finally:
        del os.environ["RAY_NODE_TYPE_NAME"]


def kill_process(name: str) -> None:
    """Kill one process whose title begins so, as Ray titles its actors."""
    for process in psutil.Process().children(recursive=True):  # of this test's cluster alone
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended since, as zombies have
            if " ".join(process.cmdline()).startswith(name):
                process.kill()
                process.wait()
                return
    raise LookupError(name)
