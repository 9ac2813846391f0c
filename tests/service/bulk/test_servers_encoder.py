"""Running servers as an encoder: the same vectors, back-pressure, and servers that fail."""

import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from embedwell_bulk import BulkError
from embedwell_bulk.local_model import LocalModel
from embedwell_bulk.servers_encoder import IN_FLIGHT, ServerWorker, connect, describe_model
from embedwell_client import Client
from tests.conftest import Folder
from tests.models.sparse_encoder import write_splade
from tests.models.tiny import unframed
from tests.service.bulk.jobs import contents, prose, run_job, write_parquet
from tests.service.faulty_gateway import FaultyGateway, GatewayResponse
from tests.service.local_server import local_server
from tests.service.server import HttpServer, Server

BUSY = GatewayResponse(429, b'{"error": "busy", "error_type": "overloaded"}', {"retry-after": "0"})


@pytest.fixture(scope="module")
def folder(tiny_bert: Folder) -> Path:
    return tiny_bert()


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HttpServer]:
    """A server of a small model, which may also be named."""
    with local_server(folder) as server:
        yield server


def test_vectors_are_those_of_the_same_model_here(server: HttpServer, small: LocalModel) -> None:
    texts = sorted({*prose(500)}, key=len)
    counts: list[int] = []
    with connect([server.url], None, "a copy of ") as servers:
        vectors, rejected = servers.begin(texts, counts.append).result()
        description = servers.description
    prompted = LocalModel(small.embedder, "small", "a copy of ")
    np.testing.assert_array_equal(vectors, prompted.embed(texts, lambda _: None)[0])
    assert sum(counts) == len(texts) and not rejected
    assert description == {**prompted.description, "model": description["model"]}


def test_no_more_than_eight_requests_are_in_flight(server: HttpServer, small: LocalModel) -> None:
    texts = [str(number) for number in range(600)]
    with FaultyGateway(server.url) as gateway, connect([gateway.url], None, None) as servers:
        gateway.faults = [0.5] * 8
        vectors, _ = servers.begin(texts, lambda _: None).result()
        assert 2 <= gateway.max_concurrent <= 8 < len(gateway.bodies)
    np.testing.assert_array_equal(vectors, small.embedder.embed(texts))


def test_a_request_has_few_long_texts(server: HttpServer, small: LocalModel) -> None:
    texts = [f"{number} {'work ' * 1600}" for number in range(10, 18)]  # 8,000 characters each
    with FaultyGateway(server.url) as gateway, connect([gateway.url], None, None) as servers:
        vectors, _ = servers.begin(texts, lambda _: None).result()
        sizes = sorted(len(json.loads(body)["inputs"]) for body in gateway.bodies)
    assert sizes == [2, 2, 2, 2]
    np.testing.assert_array_equal(vectors, small.embedder.embed(texts))


def test_a_busy_server_is_asked_again_and_a_broken_connection_too(
    server: HttpServer, small: LocalModel
) -> None:
    texts = sorted({*prose(300)}, key=len)
    with FaultyGateway(server.url) as gateway, connect([gateway.url], None, None) as servers:
        gateway.faults = [BUSY, BUSY, None]
        vectors, _ = servers.begin(texts, lambda _: None).result()
        assert not gateway.faults
    np.testing.assert_array_equal(vectors, small.embedder.embed(texts))


def test_requests_of_a_server_that_fails_go_to_the_other(
    server: HttpServer, small: LocalModel
) -> None:
    texts = sorted({*prose(1000)}, key=len)
    with (
        FaultyGateway(server.url) as gateway,
        connect([gateway.url, server.url], None, None) as servers,
    ):
        gateway.faults = [GatewayResponse(503)] * 1000
        vectors, _ = servers.begin(texts, lambda _: None).result()
    np.testing.assert_array_equal(vectors, small.embedder.embed(texts))


def test_a_request_is_sent_until_a_server_takes_it(server: HttpServer, small: LocalModel) -> None:
    with ExitStack() as stack:
        gateways = [stack.enter_context(FaultyGateway(server.url)) for _ in range(5)]
        servers = stack.enter_context(connect([gateway.url for gateway in gateways], None, None))
        for gateway in gateways:
            gateway.faults = [GatewayResponse(500)] * 2
        vectors, _ = servers.begin(["a"], lambda _: None).result()
        assert sum(len(gateway.bodies) for gateway in gateways) == 11
    np.testing.assert_array_equal(vectors, small.embedder.embed(["a"]))


def test_a_run_ends_when_no_server_has_succeeded_for_long(server: HttpServer) -> None:
    with (
        FaultyGateway(server.url) as gateway,
        connect([gateway.url], None, None, failure_timeout=0.5) as servers,
    ):
        gateway.faults = [GatewayResponse(500, b"broken")] * 10
        with pytest.raises(BulkError, match=rf"{gateway.url}: broken \(500"):
            servers.begin(["a"], lambda _: None).result()
        assert gateway.faults


def test_a_refusal_ends_the_run(server: HttpServer) -> None:
    with FaultyGateway(server.url) as gateway, connect([gateway.url], None, None) as servers:
        gateway.faults = [GatewayResponse(403, b"forbidden")]
        with pytest.raises(BulkError, match=r"http.*forbidden \(403"):
            servers.begin(["a"], lambda _: None).result()


def test_a_text_at_fault_is_rejected_and_the_others_embedded(tiny_bert: Folder) -> None:
    with (
        local_server(unframed(tiny_bert())) as server,
        connect([server.url], None, None) as servers,
    ):
        vectors, rejected = servers.begin(["", "a", "\n", "work"], lambda _: None).result()
        np.testing.assert_array_equal(
            vectors[[1, 3]], servers.begin(["a", "work"], print).result()[0]
        )
    assert {*rejected} == {0, 2} and "no tokens" in rejected[0] and "the text" in rejected[0]


def test_servers_of_different_models_are_refused(server: HttpServer, tiny_bert: Folder) -> None:
    with (
        local_server(tiny_bert(num_hidden_layers=1)) as other,
        pytest.raises(BulkError, match=f"{other.url} has another model or precision than"),
        connect([server.url, other.url], None, None),
    ):
        pass


def test_a_server_that_cannot_be_reached_is_named() -> None:
    with (
        pytest.raises(BulkError, match=r"http://127\.0\.0\.1:1: .*unreachable"),
        connect(["http://127.0.0.1:1"], None, None),
    ):
        pass


def test_a_server_without_dense_vectors_is_refused(tmp_path: Path) -> None:
    write_splade(tmp_path)
    with (
        local_server(tmp_path) as server,
        pytest.raises(BulkError, match="no dense vectors"),
        connect([server.url], None, None),
    ):
        pass


@pytest.mark.full
def test_a_run_goes_on_when_one_of_two_servers_is_killed(
    folder: Path, small: LocalModel, tmp_path: Path
) -> None:
    path, out = write_parquet(tmp_path / "in.parquet", 3000), tmp_path / "out"
    settings: dict[str, Any] = {"model": folder, "served_name": "small"}
    with (
        Server(tmp_path / "log1", **settings) as killed,
        Server(tmp_path / "log2", **settings) as other,
        connect([killed.url, other.url], None, None) as servers,
    ):
        killed.wait_ready()
        other.wait_ready()
        thread = threading.Thread(
            target=run_job, args=(servers, path, out), kwargs={"part_rows": 250}
        )
        thread.start()
        other.wait_until((out / "part-000000.parquet").exists)
        processes = psutil.Process(killed.process.pid).children(recursive=True)
        for process in [psutil.Process(killed.process.pid), *processes]:
            process.kill()
        assert not (out / "part-000011.parquet").exists()
        thread.join()
    run_job(small, path, tmp_path / "local", part_rows=250)
    assert contents(out) == contents(tmp_path / "local")


def idle(client: Client, description: Mapping[str, Any], **fields: Any) -> ServerWorker:
    return ServerWorker("http://127.0.0.1:1", client, description, ThreadPoolExecutor(1), **fields)


def test_a_server_that_comes_back_with_another_model_ends_the_run(tiny_bert: Folder) -> None:
    with local_server(tiny_bert()) as http, Client(http.url) as client:
        description = describe_model(client, http.url)
        assert description is not None
        idle(client, description).check_model()
        other = idle(client, {**description, "precision": "int8"})
        with pytest.raises(BulkError, match="has another model than at the start"):
            other.check_model()


def test_a_server_that_fails_pauses_longer_each_time_and_once_for_all_requests() -> None:
    server = idle(Client("http://127.0.0.1:1"), {})
    server.note_failure()
    first = server.paused_until
    server.note_failure()  # another request that was in flight
    assert server.paused_until == first and server.failures == 1
    assert server.free_at == first
    server.paused_until = 0.0  # as if it had passed
    server.note_failure()
    assert server.paused_until - first >= 1 and server.failures == 2


def test_a_server_with_all_requests_in_flight_takes_no_other() -> None:
    server = idle(Client("http://127.0.0.1:1"), {}, in_flight=IN_FLIGHT - 1)
    assert server.free_at == 0
    server.in_flight += 1
    assert server.free_at == float("inf")
