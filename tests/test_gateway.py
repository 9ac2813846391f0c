"""The gateway's own configuration, in a real nginx in front of real servers."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.nginx import Gateway, free_port
from tests.service.server import Server, error_of


@pytest.fixture(scope="module")
def gateway(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("gateway"), server.url.removeprefix("http://")) as found:
        yield found


def embed(gateway: Gateway, text: str = "a", **headers: str) -> httpx.Response:
    return httpx.post(f"{gateway.url}/embed", json={"inputs": text}, headers=headers, timeout=120)


def test_an_answer_passes_unchanged(gateway: Gateway, server: Server) -> None:
    answer = embed(gateway, "through the gateway")
    assert answer.content == server.post("/embed", {"inputs": "through the gateway"}).content
    assert int(answer.headers["x-compute-us"]) > 0


def test_a_request_id_goes_all_the_way_or_is_made(gateway: Gateway) -> None:
    assert embed(gateway, **{"x-request-id": "mine-7"}).headers["x-request-id"] == "mine-7"
    assert re.fullmatch("[0-9a-f]{32}", embed(gateway).headers["x-request-id"])
    assert '"mine-7"' in gateway.log


def test_a_body_beyond_the_servers_limit_is_refused_with_a_code_and_a_message(
    gateway: Gateway,
) -> None:
    answer = httpx.post(f"{gateway.url}/embed", content=b"x" * (8 * 2**20 + 1))
    error = error_of(answer)
    assert answer.status_code == 413 and error["code"] == "body_too_large"
    assert error["request_id"] and error["message"]


def test_headers_that_the_server_takes_pass_and_more_is_refused(
    gateway: Gateway,
) -> None:
    assert embed(gateway, **{"x-long": "a" * 60_000}).status_code == 200
    for first, second in ((60_000, 60_000), (100_000, 0)):  # by the server, by the gateway
        answer = embed(gateway, **{"x-long": "a" * first, "x-more": "a" * second})
        error = error_of(answer)
        assert answer.status_code == 431 and error["code"] == "head_too_large"
        assert error["request_id"] and error["message"]


def test_metrics_are_for_who_reaches_the_server_itself(gateway: Gateway, server: Server) -> None:
    assert httpx.get(f"{server.url}/metrics").status_code == 200
    answer = httpx.get(f"{gateway.url}/metrics")
    assert answer.status_code == 404 and error_of(answer)["code"] == "not_found"


def test_without_a_server_the_gateway_answers_with_a_message(tmp_path: Path) -> None:
    with Gateway(tmp_path, f"127.0.0.1:{free_port()}") as alone:
        answer = embed(alone)
        assert answer.status_code == 502 and error_of(answer)["message"]


@pytest.mark.full
def test_a_request_that_a_restarting_server_refuses_goes_to_another(
    server: Server, tmp_path: Path
) -> None:
    with Server(tmp_path / "other") as other:
        hosts = [each.url.removeprefix("http://") for each in (server, other)]
        with Gateway(tmp_path, *hosts) as both:
            os.kill(other.engine, signal.SIGKILL)
            statuses = {embed(both).status_code for _ in range(20)}
            assert other.client.get("/info").json()["engine_restarts"] == 1
    assert statuses == {200}
