"""A server of a run: its model, and its pauses."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from embedwell.bulk.errors import BulkError
from embedwell.bulk.servers_encoder import IN_FLIGHT, ServerWorker, describe_model
from embedwell_client import Client
from tests.conftest import Folder
from tests.service.local_server import local_server


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
