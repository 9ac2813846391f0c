"""Limits of requests, and keys and truncation policy as settings of the server."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from embedwell.compute.memory_budget import MemoryBudget, Reservation
from embedwell.compute.request_limits import ResponseSize
from embedwell.errors import Overloaded, TooLarge
from tests.service.local_server import local_server
from tests.service.responses import error
from tests.service.server import Server


def authorization(key: str) -> httpx.Headers:
    return httpx.Headers([(b"authorization", key.encode())])


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(
        tmp_path_factory.mktemp("strict") / "log",
        max_body_bytes=2000,
        max_texts=4,
        max_tokens=20,
        max_values=10_000,
        auto_truncate="false",
        api_key="old,sésame",
        served_name="mini",
        root_path="/models/mini",
    ) as server:
        server.client.headers = authorization("Bearer sésame")
        yield server


def test_a_larger_body_is_refused_whether_or_not_its_length_is_announced(
    strict_server: Server,
) -> None:
    announced = error(strict_server.post("/embed", {"inputs": "a" * 2000}), 413)
    assert announced["code"] == "body_too_large" and "2000" in announced["message"]
    chunks = (b'{"inputs": "', b"a" * 1990, b'"}')
    assert (
        error(strict_server.client.post("/embed", content=iter(chunks)), 413)["code"]
        == "body_too_large"
    )


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/embed", {"inputs": ["a"] * 5}, "too_many_texts"),
        ("/tokenize", {"inputs": ["a"] * 5}, "too_many_texts"),
        ("/decode", {"ids": [[101]] * 5}, "too_many_texts"),
        ("/v1/embeddings", {"input": ["a"] * 5}, "too_many_texts"),
        ("/embed", {"inputs": ["one two three four five six"] * 4}, "too_many_tokens"),
        ("/tokens", {"inputs": "one two three four five six " * 4}, "too_many_tokens"),
        ("/tokenize", {"inputs": "one two three four five six " * 4}, "too_many_tokens"),
        ("/decode", {"ids": [[101] * 10, [102] * 11]}, "too_many_tokens"),
        ("/tokens", {"inputs": "one", "spans": [[[0, 1]] * 27]}, "too_many_values"),
        ("/positions", {"scheme": "relative", "count": 101}, "too_many_values"),
        ("/similarity", {"a": [[1.0]] * 101, "b": [[1.0]] * 100}, "too_many_values"),
    ],
)
def test_every_limit_has_its_own_code(
    strict_server: Server, path: str, body: object, code: str
) -> None:
    assert error(strict_server.post(path, body), 413)["code"] == code


def test_token_vectors_count_against_the_limit_of_values(minilm_folder: Path) -> None:
    with local_server(minilm_folder, max_values=1000) as server:
        assert error(server.post("/tokens", {"inputs": "a b"}), 413)["code"] == "too_many_values"


def test_the_server_can_refuse_truncation_by_default(strict_server: Server) -> None:
    failure = error(strict_server.post("/embed", {"inputs": "a " * 300}), 400)
    assert failure["code"] == "input_too_long"


@pytest.mark.parametrize("key", ["bearer sésame", "BEARER sésame", "Bearer  sésame"])
def test_the_case_of_the_scheme_does_not_matter(strict_server: Server, key: str) -> None:
    response = strict_server.client.get("/info", headers=authorization(key))
    assert response.status_code == 200


@pytest.mark.full(after=2)
@pytest.mark.parametrize(
    "key", [None, "Bearer wrong", "sésame", "Basic sésame", "Bearer", "Bearersésame"]
)
def test_without_the_key_only_health_checks_are_answered(
    strict_server: Server, key: str | None
) -> None:
    headers = None if key is None else authorization(key)
    without_root_path = strict_server.url.removesuffix("/models/mini")
    for path in ("/info", "/v1/models", "/nothing"):
        response = httpx.get(without_root_path + path, headers=headers, timeout=120)
        assert error(response, 401)["code"] == "invalid_api_key"
        assert response.headers["www-authenticate"] == "Bearer"
    assert error(
        httpx.post(f"{without_root_path}/", json={"inputs": "a"}, headers=headers, timeout=120), 401
    )
    health = ("/", "/ping", "/live", "/ready", "/health")
    for path in (*health, "/metrics", "/docs", "/openapi.json"):
        assert (
            httpx.get(without_root_path + path, timeout=120).status_code
            == httpx.get(strict_server.url + path, timeout=120).status_code
            == 200
        )


def test_the_key_is_never_logged(strict_server: Server) -> None:
    assert "sésame" not in strict_server.log and "KEY" in strict_server.log


def test_the_served_name_is_the_model_of_the_openai_api(strict_server: Server) -> None:
    assert strict_server.client.get("/v1/models").json()["data"][0]["id"] == "mini"
    assert strict_server.post("/v1/embeddings", {"input": "a", "model": "mini"}).status_code == 200
    failure = error(strict_server.post("/v1/embeddings", {"input": "a", "model": "other"}), 404)
    assert failure["code"] == "model_not_found" and "mini" in failure["message"]


@pytest.mark.parametrize("path", ["/embed/", "//embed", "/v1//embeddings//"])
def test_an_extra_slash_leads_to_the_same_route(strict_server: Server, path: str) -> None:
    """Without a redirect, as the address that the client uses may be a gateway's."""
    body: dict[str, object] = {"input": "a"} if "embeddings" in path else {"inputs": "a"}
    assert strict_server.client.post(strict_server.url + path, json=body).status_code == 200


def test_an_extra_slash_opens_no_route_that_needs_a_key(strict_server: Server) -> None:
    body, key = {"inputs": "a"}, authorization("")
    for path in ("/embed/", "//embed", "//", "/playground/..//embed", "/live//embed"):
        response = strict_server.client.post(strict_server.url + path, json=body, headers=key)
        assert response.status_code in {401, 404, 405}, path
    for path in ("/ready/", "//live"):
        response = strict_server.client.get(strict_server.url + path, headers=key)
        assert response.status_code == 200


def test_a_response_is_refused_when_its_parts_are_too_large_together() -> None:
    size = ResponseSize(Reservation(), limit=100)
    size.grow(60)
    size.grow(40)
    with pytest.raises(TooLarge, match="110 numbers or more, but the limit is 100") as refused:
        size.grow(10)
    assert refused.value.code == "too_many_values"


def test_the_memory_of_a_response_is_reserved_as_it_grows() -> None:
    budget = MemoryBudget(limit=200_000, strict=True)
    memory = Reservation(budget)
    size = ResponseSize(memory, limit=1_000_000)
    size.grow(3000)
    assert budget.reserved == memory.size == 96_000
    with pytest.raises(Overloaded):
        size.grow(4000)
