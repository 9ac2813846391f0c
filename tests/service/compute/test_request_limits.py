"""Limits of requests, and keys and truncation policy as settings of the server."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from embedwell.compute.request_limits import SMALL, MemoryBudget, Reservation, ResponseSize
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


def test_small_requests_always_pass_and_are_not_counted() -> None:
    budget = MemoryBudget(1)
    Reservation(budget).grow(2 * SMALL)
    for _ in range(10):
        Reservation(budget).grow(SMALL)
    assert budget.reserved == 2 * SMALL


def test_large_requests_pass_up_to_the_limit_together() -> None:
    budget = MemoryBudget(10 * SMALL)
    first, second = Reservation(budget), Reservation(budget)
    first.grow(6 * SMALL)
    with pytest.raises(Overloaded) as refused:
        second.grow(5 * SMALL)
    assert refused.value.headers["retry-after"] == "1"
    first.release()
    second.release()
    second.grow(SMALL)
    assert budget.reserved == 0, "it is a small request again"
    second.grow(9 * SMALL)


def test_a_request_that_grows_in_steps_counts_completely() -> None:
    budget = MemoryBudget(10 * SMALL)
    first, growing = Reservation(budget), Reservation(budget)
    first.grow(4 * SMALL)
    for _ in range(6):
        growing.grow(SMALL)
    assert budget.reserved == 10 * SMALL
    with pytest.raises(Overloaded):
        growing.grow(1)


def test_the_only_large_request_may_exceed_the_limit() -> None:
    budget = MemoryBudget(1)
    only = Reservation(budget)
    only.grow(100 * SMALL)
    only.grow(100 * SMALL)
    assert budget.reserved == 200 * SMALL


def test_a_strict_budget_is_for_no_request_above_it() -> None:
    budget = MemoryBudget(3 * SMALL, strict=True)
    only = Reservation(budget)
    only.grow(3 * SMALL)
    with pytest.raises(Overloaded):
        only.grow(1)


@dataclass(eq=False)
class Client:
    """A client that has stopped reading a response of some size."""

    budget: MemoryBudget
    size: int
    ended: bool = False
    memory: Reservation = field(init=False)

    def __post_init__(self) -> None:
        self.memory = Reservation(self.budget)
        self.memory.grow(self.size)
        self.budget.pause(self)

    def give_way(self) -> None:
        self.ended = True


def test_the_client_that_stopped_reading_first_gives_way_to_a_request_that_needs_its_memory() -> (
    None
):
    budget = MemoryBudget(10 * SMALL, max_pause=0)
    clients = [Client(budget, 3 * SMALL) for _ in range(3)]
    budget.pause(clients[0])
    Reservation(budget).grow(4 * SMALL)
    assert [client.ended for client in clients] == [True, False, False]
    assert budget.reserved == 10 * SMALL
    clients[0].memory.release()
    assert budget.reserved == 10 * SMALL


def test_the_client_with_the_longest_pauses_together_gives_way_first() -> None:
    budget = MemoryBudget(10 * SMALL, max_pause=1000)
    first, second = [Client(budget, 5 * SMALL) for _ in range(2)]
    for client, seconds in ((first, 2000), (second, 3000)):
        budget.resume(client)
        budget.pause(client, seconds)
    Reservation(budget).grow(2 * SMALL)
    assert (first.ended, second.ended) == (False, True)


def test_no_client_gives_way_in_vain() -> None:
    budget = MemoryBudget(10 * SMALL, max_pause=0)
    Reservation(budget).grow(6 * SMALL)
    client = Client(budget, 4 * SMALL)
    with pytest.raises(Overloaded):
        Reservation(budget).grow(5 * SMALL)
    assert not client.ended
    Reservation(budget).grow(4 * SMALL)
    assert client.ended


def test_no_client_gives_way_that_stopped_reading_just_now() -> None:
    budget = MemoryBudget(10 * SMALL, max_pause=1000)
    client = Client(budget, 8 * SMALL)
    with pytest.raises(Overloaded):
        Reservation(budget).grow(4 * SMALL)
    assert not client.ended


def test_no_client_gives_way_that_reads_again() -> None:
    budget = MemoryBudget(10 * SMALL, max_pause=0)
    client = Client(budget, 8 * SMALL)
    budget.resume(client)
    with pytest.raises(Overloaded):
        Reservation(budget).grow(4 * SMALL)
    assert not client.ended


def test_no_client_gives_way_to_its_own_next_request() -> None:
    budget = MemoryBudget(10 * SMALL, max_pause=0)
    Reservation(budget).grow(6 * SMALL)
    client = Client(budget, 4 * SMALL)
    with pytest.raises(Overloaded):
        client.memory.grow(1)
    assert not client.ended


@pytest.mark.parametrize("strict", [False, True])
def test_clients_give_way_to_a_request_above_the_limit_if_it_is_allowed(strict: bool) -> None:
    budget = MemoryBudget(10 * SMALL, strict, max_pause=0)
    client, request = Client(budget, 8 * SMALL), Reservation(budget)
    if strict:
        with pytest.raises(Overloaded):
            request.grow(12 * SMALL)
    else:
        request.grow(12 * SMALL)
    assert client.ended is not strict


def test_no_client_gives_way_whose_memory_is_of_another_budget() -> None:
    budget = MemoryBudget(10 * SMALL, max_pause=0)
    client = Client(MemoryBudget(), 8 * SMALL)
    budget.pause(client)
    Reservation(budget).grow(8 * SMALL)
    with pytest.raises(Overloaded):
        Reservation(budget).grow(4 * SMALL)
    assert not client.ended
