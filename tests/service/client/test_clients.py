"""The clients in Python against a running server, and against a gateway that misbehaves."""

import asyncio
import pickle
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import numpy as np
import orjson
import pytest

from models import Embedder
from service.client import AsyncClient, Client, RequestFailed
from tests.service.gateway import Answer, Gateway
from tests.service.server import Server

TEXTS = [f"Text {place} of several." for place in range(10)]


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, batch=3) as found:
        yield found


@pytest.fixture
def gateway(server: Server) -> Iterator[Gateway]:
    with Gateway(server.url) as running:
        yield running


def ask(url: str, work: Callable[[AsyncClient], Awaitable[Any]], **terms: Any) -> Any:
    """What the asynchronous client gets."""

    async def run() -> Any:
        async with AsyncClient(url, **terms) as client:
            return await work(client)

    return asyncio.run(run())


def test_texts_in_batches_keep_their_order_and_every_bit(
    server: Server, client: Client, embedder: Embedder
) -> None:
    expected = embedder.embed(TEXTS)
    found = client.embed(iter(TEXTS))
    assert found.dtype == np.float32 and found.flags.writeable
    np.testing.assert_array_equal(found, expected)
    found = ask(server.url, lambda other: other.embed(TEXTS), batch=3)
    np.testing.assert_array_equal(found, expected)


def test_answers_that_come_out_of_order_are_put_in_order(
    gateway: Gateway, embedder: Embedder
) -> None:
    gateway.faults = [0.4, 0.2, 0.0]
    found = ask(gateway.url, lambda client: client.embed(TEXTS), batch=2, concurrency=3)
    np.testing.assert_array_equal(found, embedder.embed(TEXTS))
    assert len(gateway.bodies) == 5


def test_so_many_requests_as_told_are_under_way_at_a_time(gateway: Gateway) -> None:
    gateway.faults = [0.2] * 6
    ask(gateway.url, lambda client: client.embed(TEXTS[:6]), batch=1, concurrency=2)
    assert gateway.most == 2


def test_one_text_and_token_ids_are_taken_too(client: Client, embedder: Embedder) -> None:
    expected = embedder.embed(TEXTS[:2])
    rows = [row.ids for row in embedder.tokenize(TEXTS[:2])]
    np.testing.assert_array_equal(client.embed(TEXTS[0]), expected[:1])
    np.testing.assert_array_equal(client.embed(list(rows[0])), expected[:1])
    np.testing.assert_array_equal(client.embed(np.array(rows[0])), expected[:1])
    np.testing.assert_array_equal(client.embed([list(row) for row in rows]), expected)


def test_options_reach_the_server(server: Server, client: Client, cutting: Server) -> None:
    body = {"inputs": TEXTS[0], "normalize": False, "prompt": "query: "}
    expected = np.array(server.post("/embed", body).json(), np.float32)
    found = client.embed(TEXTS[0], normalize=False, prompt="query: ")
    np.testing.assert_array_equal(found, expected)
    assert client.embed(TEXTS, output_dtype="ubinary").dtype == np.uint8
    with Client(cutting.url) as other:
        assert other.embed(TEXTS, dimensions=64).shape == (10, 64)
    with pytest.raises(RequestFailed, match="unknown field 'normalise'"):
        client.embed(TEXTS, normalise=True)  # type: ignore[call-arg]


def test_chunks_are_read_together_whatever_the_batch(server: Server, client: Client) -> None:
    body = {"inputs": TEXTS, "late_chunking": True}
    expected = np.array(server.post("/embed", body).json(), np.float32)
    np.testing.assert_array_equal(client.embed(TEXTS, late_chunking=True), expected)


@pytest.mark.full
def test_a_server_with_small_limits_gets_small_requests(
    gateway: Gateway, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder
) -> None:
    log = tmp_path_factory.mktemp("small") / "log"
    texts = [*TEXTS, "many words " * 40, *TEXTS]
    with Server(
        log, max_texts=4, max_tokens=200, max_body_bytes=600, api_key="old,sésame"
    ) as small:
        with Client(small.url, "sésame") as client:
            np.testing.assert_array_equal(client.embed(texts), embedder.embed(texts))
            assert client.info()["limits"]["max_texts"] == 4
        with Client(small.url, "wrong") as client, pytest.raises(RequestFailed) as failed:
            client.embed(texts)
    assert (failed.value.status, failed.value.code) == (401, "invalid_api_key")


def test_an_error_names_the_input_among_all_that_were_given(server: Server, client: Client) -> None:
    texts = [*TEXTS[:7], "word " * 300, *TEXTS]
    for embed in (
        lambda: client.embed(texts, on_overflow="error"),
        lambda: ask(server.url, lambda c: c.embed(texts, on_overflow="error"), batch=3),
    ):
        with pytest.raises(RequestFailed, match=r"302 tokens in input 7;") as failed:
            embed()
        error = failed.value
        assert (error.status, error.code, error.index) == (400, "input_too_long", 7)
        assert error.request_id and f"(400, input_too_long, request {error.request_id})" in str(
            error
        )
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
    with pytest.raises(RequestFailed, match=r"^inputs\.4: ") as failed:
        client.embed([*TEXTS[:4], None])  # type: ignore[arg-type]
    assert (failed.value.index, failed.value.param) == (4, "inputs")


def test_no_text_at_all_is_what_the_server_says(client: Client) -> None:
    with pytest.raises(RequestFailed, match="give at least one text"):
        client.embed([])


def test_what_is_cut_unasked_is_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.embed(["word " * 300, *TEXTS], on_overflow="end")
    client.embed(TEXTS)
    assert not [record for record in caplog.records if record.name.startswith("service")]
    client.embed(["word " * 300, *TEXTS])
    assert "1 inputs were cut; see on_overflow" in caplog.text


@pytest.mark.full
def test_a_busy_server_is_asked_again_after_what_it_says(
    gateway: Gateway, embedder: Embedder
) -> None:
    busy = [Answer(429, headers={"retry-after": "1"}), Answer(503, headers={"retry-after": "0"})]
    for embed in (
        lambda: Client(gateway.url).embed(TEXTS),
        lambda: ask(gateway.url, lambda client: client.embed(TEXTS)),
    ):
        gateway.faults, gateway.bodies = [*busy], []
        np.testing.assert_array_equal(embed(), embedder.embed(TEXTS))
        assert len(gateway.bodies) == 3


def test_a_connection_that_breaks_is_tried_again(gateway: Gateway, embedder: Embedder) -> None:
    gateway.faults = [None]
    with Client(gateway.url) as client:
        np.testing.assert_array_equal(client.embed(TEXTS), embedder.embed(TEXTS))
    assert len(gateway.bodies) == 2


def test_after_so_many_retries_the_last_answer_is_the_error(gateway: Gateway) -> None:
    full = b'{"error": {"message": "full", "param": null, "code": "overloaded", "index": null}}'
    gateway.faults = [Answer(429, full, {"retry-after": "0"})] * 9
    with Client(gateway.url, retries=2) as client, pytest.raises(RequestFailed) as failed:
        client.embed(TEXTS)
    assert (failed.value.status, failed.value.code, failed.value.message) == (
        429,
        "overloaded",
        "full",
    )
    assert len(gateway.bodies) == 3


def test_other_errors_are_not_tried_again_even_those_of_a_gateway(gateway: Gateway) -> None:
    gateway.faults = [Answer(504, b"<h1>Timed out</h1>", {"x-request-id": "abc"})]
    with Client(gateway.url) as client, pytest.raises(RequestFailed) as failed:
        client.embed(TEXTS)
    assert str(failed.value) == "<h1>Timed out</h1> (504, http_504, request abc)"
    assert len(gateway.bodies) == 1


def test_an_answer_that_is_none_of_the_servers_is_a_failure(gateway: Gateway) -> None:
    page = Answer(200, b"<html>Sign in</html>", {"x-request-id": "abc"})
    for embed in (
        lambda: Client(gateway.url).embed(TEXTS),
        lambda: ask(gateway.url, lambda client: client.embed(TEXTS)),
    ):
        gateway.faults = [page]
        with pytest.raises(RequestFailed, match=r"Sign in.* \(200, invalid_answer, request abc\)$"):
            embed()


def test_without_an_answer_the_error_has_no_status(gateway: Gateway) -> None:
    with Client(gateway.url, timeout=0.3) as client:
        client.info()
        gateway.faults = [1.0]
        with pytest.raises(RequestFailed) as failed:
            client.embed(TEXTS)
        assert (failed.value.status, failed.value.code) == (None, "timeout")
    with pytest.raises(RequestFailed, match="unreachable"):
        Client("http://127.0.0.1:1", retries=0).info()
    with pytest.raises(RequestFailed, match="unreachable"):
        ask("http://127.0.0.1:1", lambda client: client.info(), retries=0)


def test_the_first_failure_ends_the_other_requests(gateway: Gateway) -> None:
    gateway.faults = [Answer(500, b"broken")]
    with pytest.raises(RequestFailed, match=r"broken \(500, http_500\)"):
        ask(gateway.url, lambda client: client.embed(TEXTS), batch=1, concurrency=2)
    assert len(gateway.bodies) < len(TEXTS)


def test_token_vectors_spans_and_chunks_are_arrays(server: Server, client: Client) -> None:
    first, second = client.tokens(["Hi 🦊", "word " * 300])
    answer = server.post("/tokens", {"inputs": "Hi 🦊"}).json()["results"][0]["tokens"]
    expected = np.array([token.pop("embedding") for token in answer], np.float32)
    np.testing.assert_array_equal(first.vectors, expected)
    assert first.items == answer and first.dropped == 0 and second.dropped == 46
    assert client.tokens("a b", spans=[[(0, 1)]])[0].vectors.shape == (1, 384)
    (found,) = ask(server.url, lambda c: c.tokens(chunks=[["a", "b c"]], output_dtype="ubinary"))
    assert found.vectors.shape == (2, 48) and found.vectors.dtype == np.uint8
    assert [chunk["tokens"] for chunk in found.items] == [1, 2]


def test_scores_are_arrays_of_texts_and_of_vectors(server: Server, client: Client) -> None:
    vectors = client.embed(TEXTS)
    found = client.similarity(TEXTS[:2], TEXTS)
    assert found.shape == (2, 10) and found.dtype == np.float32
    np.testing.assert_array_equal(client.similarity(vectors[:2], vectors), found)
    np.testing.assert_array_equal(client.similarity(vectors[:4:2], vectors)[0], found[0])
    pairs = ask(server.url, lambda c: c.similarity(TEXTS, TEXTS[::-1], mode="pairwise"))
    assert pairs.shape == (10,)
    best = client.similarity(TEXTS[:2], TEXTS, top_k=3)
    assert best.shape == (2, 3) and best["index"][:, 0].tolist() == [0, 1]
    np.testing.assert_array_equal(best["score"], -np.sort(-found)[:, :3])


def test_positions_are_arrays(server: Server, client: Client) -> None:
    found = client.positions(scheme="alibi", heads=2, count=3, causal=True)
    assert found["scheme"] == "alibi" and found["positions"].tolist() == [0, 1, 2]
    assert found["positions"].dtype == np.int64 and found["bias"].dtype == np.float32
    assert found["bias"][0, 0].tolist() == [0, -np.inf, -np.inf]
    assert ask(server.url, lambda c: c.positions(positions=[0, 511]))["vectors"].shape == (2, 384)


def test_the_bar_counts_texts(
    server: Server, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.embed(TEXTS)
    assert capsys.readouterr().err == ""
    client.embed(TEXTS, progress=True)
    assert "10/10" in capsys.readouterr().err
    ask(server.url, lambda other: other.embed(TEXTS, progress=True))
    assert "10/10" in capsys.readouterr().err


def test_without_tqdm_the_bar_says_what_to_install(server: Server) -> None:
    program = f"""
import sys
sys.modules["tqdm"] = None  # as if it were not there
from service.client import Client
with Client("{server.url}") as client:
    assert client.embed("a").shape == (1, 384)
    client.embed("a", progress=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "ImportError: the progress bar needs tqdm: pip install tqdm" in done.stderr


def test_the_client_loads_neither_the_server_nor_torch() -> None:
    program = """
import sys
import service.client
loaded = {name for name in sys.modules if name.partition(".")[0] in ("service", "models")}
assert all(name == "service" or name.startswith("service.client") for name in loaded), loaded
assert not {"torch", "fastapi", "pydantic", "tokenizers", "tqdm"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("number", [0, -1])
def test_no_request_at_a_time_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=f"^concurrency is {number}; it must be 1 or more$"):
        AsyncClient("http://localhost:8080", concurrency=number)


def test_the_key_is_not_shown() -> None:
    assert "secret" not in repr(Client("http://localhost:8080", "secret"))


def test_special_characters_arrive_as_they_are(gateway: Gateway) -> None:
    texts = ['\x00 \n " \\ 🦊 naïve']
    with Client(gateway.url) as client:
        client.embed(texts)
    assert orjson.loads(gateway.bodies[0]) == {"inputs": texts}
