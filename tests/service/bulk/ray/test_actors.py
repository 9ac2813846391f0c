"""Actors of a real cluster as an encoder: the same bytes, and actors and nodes that die."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from embedwell_bulk import BulkError
from embedwell_bulk.local_model import LocalModel
from embedwell_bulk.ray.actors import connect
from tests.conftest import Folder
from tests.service.bulk.jobs import contents, prose, run_job, write_parquet
from tests.service.bulk.ray.cluster import add_node_of_group, kill_process, ray_cluster
from tests.service.server import MAX_ISA

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ray_cluster(nodes=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def folder(tiny_bert: Folder) -> Path:
    return tiny_bert()


@pytest.fixture(scope="module")
def settings(folder: Path) -> dict[str, Any]:
    return {"model": str(folder), "dtype": "float32", "isa": MAX_ISA, "served_name": "small"}


def test_vectors_are_those_of_the_same_model_here(
    cluster: Cluster, settings: dict[str, Any], small: LocalModel
) -> None:
    texts = sorted({*prose(3000), ""}, key=len)
    counts: list[int] = []
    with connect(cluster.address, settings, "a copy of ") as actors:
        assert len(actors.workers) == 2 and actors.dim == 48
        vectors, rejected = actors.begin(texts, counts.append).result()
        description = actors.description
    prompted = LocalModel(small.embedder, "small", "a copy of ")
    np.testing.assert_array_equal(vectors, prompted.embed(texts, lambda _: None)[0])
    assert sum(counts) == len(texts) and not rejected
    assert description == prompted.description


def kill_an_actor(cluster: Cluster) -> None:
    kill_process("ray::ModelActor")


def kill_a_node(cluster: Cluster) -> None:
    busy = max(cluster.worker_nodes, key=lambda node: node.node_id)
    [raylet] = busy.all_processes["raylet"]
    workers = psutil.Process(raylet.process.pid).children(recursive=True)
    cluster.remove_node(busy, allow_graceful=False)
    for worker in workers:  # which would go on for a second
        with suppress(psutil.NoSuchProcess):
            worker.kill()


@pytest.mark.parametrize("kill", [kill_an_actor, kill_a_node])
def test_a_run_goes_on_when_a_part_of_the_cluster_is_killed(
    kill: Callable[[Cluster], None],
    cluster: Cluster,
    settings: dict[str, Any],
    small: LocalModel,
    tmp_path: Path,
) -> None:
    path, out = write_parquet(tmp_path / "in.parquet", 12000), tmp_path / "out"
    with connect(cluster.address, settings, None) as actors:
        workers: list[Any] = [*actors.workers]
        ray.get([worker.description_ref for worker in workers])  # all have loaded the model
        arguments, options = (actors, path, out), {"part_rows": 500}
        thread = threading.Thread(target=run_job, args=arguments, kwargs=options)
        thread.start()
        while not (out / "part-000000.parquet").exists():
            assert thread.is_alive()
            time.sleep(0.001)
        before = [worker.handle for worker in workers]
        kill(cluster)
        assert not (out / "part-000023.parquet").exists()
        if len(cluster.worker_nodes) < 2:
            cluster.add_node(num_cpus=1)
        thread.join(300)
        assert [worker.handle for worker in workers] != before
    run_job(small, path, tmp_path / "local", part_rows=500)
    assert contents(out) == contents(tmp_path / "local")


def test_a_model_that_cannot_be_loaded_ends_the_run(cluster: Cluster, tmp_path: Path) -> None:
    with (
        pytest.raises(BulkError, match=f"no model '{tmp_path / 'none'}'"),
        connect(cluster.address, {"model": str(tmp_path / "none")}, None),
    ):
        pass


@contextmanager
def killed_while_loading(times: float = float("inf")) -> Iterator[threading.Thread]:
    """Kill an actor as soon as it is there, so many times, until the end: the thread that does."""
    end = threading.Event()

    def kill() -> None:
        left = times
        while left and not end.wait(0.01):
            with suppress(LookupError):
                kill_process("ray::ModelActor")
                left -= 1

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield thread
    finally:
        end.set()
        thread.join()


def test_a_first_actor_that_dies_while_it_loads_is_started_again(
    cluster: Cluster, settings: dict[str, Any], small: LocalModel
) -> None:
    with (
        killed_while_loading(2) as killer,
        connect(cluster.address, settings, None, actors=1, cpus=1) as actors,
    ):
        killer.join()
        vectors, _ = actors.begin(["a"], lambda _: None).result()
    np.testing.assert_array_equal(vectors, small.embedder.embed(["a"]))


def test_actors_that_die_of_the_model_end_the_run(
    cluster: Cluster, settings: dict[str, Any]
) -> None:
    with (
        killed_while_loading(),
        pytest.raises(BulkError, match="3 actors have died while they loaded the model: "),
        connect(cluster.address, settings, None),
    ):
        pass


def test_an_actor_that_no_node_can_hold_ends_the_run(
    cluster: Cluster, settings: dict[str, Any]
) -> None:
    with (
        pytest.raises(
            BulkError, match="needs 64 processors and 0 GPUs, but the largest node has 1 "
        ),
        connect(cluster.address, settings, None, cpus=64),
    ):
        pass


def test_a_cluster_that_grows_is_waited_for(
    cluster: Cluster, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    small, dims = add_node_of_group(cluster, "small"), list[int]()

    def embed() -> None:
        with connect(cluster.address, settings, None, actors=1, cpus=2) as actors:
            dims.append(actors.dim)

    thread = threading.Thread(target=embed)
    thread.start()
    while "an actor needs 2 processors and 0 GPUs, but the largest node has 1 " not in caplog.text:
        assert thread.is_alive()
        time.sleep(0.01)
    large = cluster.add_node(num_cpus=2, include_dashboard=False)
    thread.join(120)
    assert dims == [48]
    cluster.remove_node(small)
    cluster.remove_node(large)


def test_a_node_with_another_model_ends_the_run(cluster: Cluster, settings: dict[str, Any]) -> None:
    with connect(cluster.address, settings, None) as actors:
        workers: list[Any] = [*actors.workers]
        for worker in workers:
            worker.fingerprint = "another"
        with pytest.raises(BulkError, match="has another model or precision than the first"):
            actors.begin(["a"], lambda _: None).result()


def test_no_cluster_at_the_address_is_said() -> None:
    with (
        pytest.raises(BulkError, match=r"to a Ray cluster at 127\.0\.0\.1:1: .*refused"),
        connect("127.0.0.1:1", {}, None),
    ):
        pass
