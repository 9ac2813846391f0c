"""Models that are loaded on demand, unloaded, and whose engines die, next to others in use."""

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import COMPILED, Folder
from tests.service.responses import error
from tests.service.server import Options, SeveralModels

NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def source(tiny_bert: Folder) -> str:
    return str(tiny_bert(**COMPILED))


@contextmanager
def requests_of(server: SeveralModels, model: str) -> Iterator[list[int]]:
    """Send requests to a model until the block ends, and yield their statuses so far."""
    statuses: list[int] = []
    done = threading.Event()

    def send() -> None:
        while not done.is_set():
            response = server.post("/embed", {"inputs": ["red", "blue"], "model": model})
            statuses.append(response.status_code)

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        done.set()
        for thread in threads:
            thread.join()


def more_than(values: list[int]) -> Callable[[], bool]:
    """Return a condition that holds once 20 more values have come."""
    count = len(values) + 20
    return lambda: len(values) >= count


def test_a_model_that_nobody_uses_is_unloaded_and_comes_back(source: str, tmp_path: Path) -> None:
    models: Mapping[str, Options] = {
        "a": {"source": source, "keep": "on_demand", "idle_unload": 1.0},
        "b": {"source": source, "keep": "on_demand"},
        "c": {"source": source, "idle_unload": 1.0},
    }
    with SeveralModels(tmp_path, models) as server:
        body = {"inputs": "red", "model": "a"}
        expected = server.post("/embed", body).json()
        server.load("b")
        with requests_of(server, "a") as statuses:
            server.wait_until(more_than(statuses))
            assert server.state("a") == "loaded"
        server.wait_until(lambda: server.state("a") == "unloaded")
        assert "model_engine: a is being loaded" in server.log
        assert re.search(r"model_engine: a is ready after \d+\.\d s", server.log)
        assert "a is unloaded, because it had no requests" in server.log
        assert (server.state("b"), server.state("c")) == ("loaded", "loaded")
        assert server.post("/embed", body).json() == expected
        assert set(statuses) == {200}


@pytest.mark.full
def test_the_least_recently_used_makes_room_for_another(source: str, tmp_path: Path) -> None:
    models = {name: {"source": source, "keep": "on_demand"} for name in NAMES}
    room_for_two = 2.5 * 4 * _parameters(source)
    with SeveralModels(tmp_path, models, max_model_bytes=int(room_for_two)) as server:
        for name in ("a", "b", "a", "c"):
            body = {"inputs": "red", "model": name}
            assert server.post("/embed", body).status_code == 200, server.log
        assert [server.state(name) for name in NAMES] == ["loaded", "unloaded", "loaded"]
        assert "b is unloaded to make room for c" in server.log
        assert len(server.engines()) == 2


@pytest.mark.full
def test_a_model_without_room_next_to_those_that_stay_is_refused(
    source: str, tmp_path: Path
) -> None:
    models: Mapping[str, Options] = {
        "a": {"source": source},
        "b": {"source": source, "keep": "on_demand"},
    }
    with SeveralModels(tmp_path, models, max_model_bytes=6 * _parameters(source)) as server:
        server.wait_ready()
        response = server.post("/embed", {"inputs": "red", "model": "b"})
        assert "could not be loaded" in error(response, 503)["message"]
        assert 1 <= int(response.headers["retry-after"]) <= 30
        assert "exceed EMBEDWELL_MAX_MODEL_BYTES" in server.log
        assert server.post("/embed", {"inputs": "red"}).status_code == 200


def test_the_death_of_an_engine_disturbs_no_other_model(source: str, tmp_path: Path) -> None:
    models = {name: {"source": source, "keep": "on_demand"} for name in NAMES[:2]}
    with SeveralModels(tmp_path, models) as server:
        engines = {name: server.load(name) for name in models}
        with requests_of(server, "b") as others, requests_of(server, "a") as own:
            server.wait_until(more_than(own))
            os.kill(engines["a"], signal.SIGKILL)
            server.wait_until(more_than(others))
            server.wait_until(lambda: 'engine_restarts{model="a"} 1.0' in metrics(server))
            server.wait_until(more_than(own))
        assert set(others) == {200} and set(own) == {200}
        assert engines["b"] in server.engines() and engines["a"] not in server.engines()
        assert "the engine of a was killed by signal 9" in server.log
        assert 'engine_restarts{model="b"} 0.0' in metrics(server)
        assert 'replayed_requests_total{model="b"} 0.0' in metrics(server)


@pytest.mark.full
def test_a_model_that_cannot_be_loaded_refuses_its_requests_alone(
    source: str, tiny_bert: Folder, tmp_path: Path
) -> None:
    broken = tiny_bert(**COMPILED)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    models: Mapping[str, Options] = {
        "a": {"source": source},
        "b": {"source": str(broken), "keep": "on_demand"},
    }
    with SeveralModels(tmp_path, models) as server:
        response = server.post("/embed", {"inputs": "red", "model": "b"})
        assert "could not be loaded" in error(response, 503)["message"]
        assert server.state("b") == "unloaded"
        assert server.post("/embed", {"inputs": "red"}).status_code == 200
        assert server.client.get("/ready").status_code == 200


@pytest.mark.full
def test_a_server_ends_if_a_model_that_it_keeps_cannot_be_loaded(
    source: str, tiny_bert: Folder, tmp_path: Path
) -> None:
    broken = tiny_bert(**COMPILED)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    server = SeveralModels(tmp_path, {"a": {"source": source}, "b": {"source": str(broken)}})
    with pytest.raises(AssertionError, match=r"model\.safetensors"), server:
        pass
    assert server.process.wait(60) == 1


@pytest.mark.full
def test_a_single_model_may_be_loaded_on_demand_too(source: str, tmp_path: Path) -> None:
    with SeveralModels(tmp_path, {"a": {"source": source, "keep": "on_demand"}}) as server:
        assert server.state("a") == "unloaded"
        assert server.post("/embed", {"inputs": "red"}).status_code == 200
        assert server.state("a") == "loaded"
        assert "model=" not in metrics(server)


def metrics(server: SeveralModels) -> str:
    return server.client.get("/metrics").text


def _parameters(source: str) -> int:
    return (Path(source) / "model.safetensors").stat().st_size // 4
