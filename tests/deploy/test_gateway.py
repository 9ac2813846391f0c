"""The gateway's configuration in a real nginx, in front of real servers."""

import os
import re
import signal
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.gateways import Gateway, free_port
from tests.programs import program
from tests.service.server import Server, error_of

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def gateway(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("gateway"), server.url.removeprefix("http://")) as gateway:
        yield gateway


def embed(gateway: Gateway, text: str = "a", **headers: str) -> httpx.Response:
    return httpx.post(f"{gateway.url}/embed", json={"inputs": text}, headers=headers, timeout=120)


def test_a_response_is_passed_on_unchanged(gateway: Gateway, server: Server) -> None:
    response = embed(gateway, "through the gateway")
    assert response.content == server.post("/embed", {"inputs": "through the gateway"}).content
    assert int(response.headers["x-compute-us"]) > 0


def test_a_request_id_is_passed_on_or_generated(gateway: Gateway) -> None:
    assert embed(gateway, **{"x-request-id": "mine-7"}).headers["x-request-id"] == "mine-7"
    assert re.fullmatch("[0-9a-f]{32}", embed(gateway).headers["x-request-id"])
    assert '"mine-7"' in gateway.log


def test_a_too_large_body_is_refused_with_a_json_error(
    gateway: Gateway,
) -> None:
    response = httpx.post(f"{gateway.url}/embed", content=b"x" * (8 * 2**20 + 1), timeout=120)
    error = error_of(response)
    assert response.status_code == 413 and error["code"] == "body_too_large"
    assert error["request_id"] and error["message"]


def test_headers_are_passed_on_up_to_the_servers_limit(
    gateway: Gateway,
) -> None:
    assert embed(gateway, **{"x-long": "a" * 60_000}).status_code == 200
    for first, second in ((60_000, 60_000), (100_000, 0)):  # by the server, by the gateway
        response = embed(gateway, **{"x-long": "a" * first, "x-more": "a" * second})
        error = error_of(response)
        assert response.status_code == 431 and error["code"] == "head_too_large"
        assert error["request_id"] and error["message"]


def test_metrics_are_not_reachable_through_the_gateway(gateway: Gateway, server: Server) -> None:
    assert httpx.get(f"{server.url}/metrics", timeout=120).status_code == 200
    response = httpx.get(f"{gateway.url}/metrics", timeout=120)
    assert response.status_code == 404 and error_of(response)["code"] == "not_found"


def test_the_gateway_serves_https(server: Server, tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    openssl = program("openssl", "openssl")
    command = [openssl, "req", "-x509", "-days", "1", *curve, *subject, *files]
    subprocess.run(command, check=True, capture_output=True)
    host, pair = server.url.removeprefix("http://"), (certificate, key)
    with Gateway(tmp_path, host, certificate=pair) as gateway:
        trusted = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=gateway.url, verify=trusted, timeout=120) as client:
            assert client.post("/embed", json={"inputs": "a"}).status_code == 200
        assert gateway.url.startswith("https:")


def test_without_a_server_the_gateway_sends_a_json_error(tmp_path: Path) -> None:
    with Gateway(tmp_path, f"127.0.0.1:{free_port()}") as without_server:
        response = embed(without_server)
        assert response.status_code == 502 and error_of(response)["message"]


@pytest.mark.full
def test_a_request_refused_by_a_restarting_server_is_sent_to_another(
    server: Server, tmp_path: Path
) -> None:
    with Server(tmp_path / "other") as restarting:
        hosts = [one.url.removeprefix("http://") for one in (server, restarting)]
        with Gateway(tmp_path, *hosts) as gateway:
            os.kill(restarting.engine, signal.SIGKILL)
            statuses = {embed(gateway).status_code for _ in range(20)}
            assert restarting.client.get("/info").json()["engine_restarts"] == 1
    assert statuses == {200}
