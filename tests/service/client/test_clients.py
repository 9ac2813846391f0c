"""The Python clients with a real server, and with a gateway that injects faults."""

import asyncio
import pickle
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from embedwell_client import AsyncClient, Client, RequestFailed
from embedwell_models import Embedder
from tests.service.faulty_gateway import FaultyGateway, GatewayResponse
from tests.service.server import Server

TEXTS = [f"Text {place} of several." for place in range(10)]


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, batch=3) as client:
        yield client


@pytest.fixture
def gateway(server: Server) -> Iterator[FaultyGateway]:
    with FaultyGateway(server.url) as gateway:
        yield gateway


def run_async(url: str, request: Callable[[AsyncClient], Awaitable[Any]], **options: Any) -> Any:
    """The result of a request of the asynchronous client."""

    async def run() -> Any:
        async with AsyncClient(url, **options) as client:
            return await request(client)

    return asyncio.run(run())


def test_batches_keep_the_order_and_every_bit_of_the_vectors(
    server: Server, client: Client, embedder: Embedder
) -> None:
    expected = embedder.embed(TEXTS)
    vectors = client.embed(iter(TEXTS))
    assert vectors.dtype == np.float32 and vectors.flags.writeable
    np.testing.assert_array_equal(vectors, expected)
    vectors = run_async(server.url, lambda client: client.embed(TEXTS), batch=3)
    np.testing.assert_array_equal(vectors, expected)


def test_responses_out_of_order_are_sorted(gateway: FaultyGateway, embedder: Embedder) -> None:
    gateway.faults = [0.4, 0.2, 0.0]
    vectors = run_async(gateway.url, lambda client: client.embed(TEXTS), batch=2, concurrency=3)
    np.testing.assert_array_equal(vectors, embedder.embed(TEXTS))
    assert len(gateway.bodies) == 5


def test_concurrency_limits_the_number_of_concurrent_requests(gateway: FaultyGateway) -> None:
    gateway.faults = [0.2] * 6
    run_async(gateway.url, lambda client: client.embed(TEXTS[:6]), batch=1, concurrency=2)
    assert gateway.max_concurrent == 2


def test_a_single_text_and_token_ids_are_accepted(client: Client, embedder: Embedder) -> None:
    expected = embedder.embed(TEXTS[:2])
    rows = embedder.tokenize(TEXTS[:2])
    np.testing.assert_array_equal(client.embed(TEXTS[0]), expected[:1])
    np.testing.assert_array_equal(client.embed(list(rows[0])), expected[:1])
    np.testing.assert_array_equal(client.embed(np.array(rows[0])), expected[:1])
    np.testing.assert_array_equal(client.embed([list(row) for row in rows]), expected)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_on_this_machine_is_not_reached_by_a_proxy(
    server: Server, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")  # where nothing listens
    url = server.url.replace("127.0.0.1", host)
    with Client(url, retries=0) as client:
        assert client.embed("a").shape == (1, 384)
    assert run_async(url, lambda client: client.embed("a"), retries=0).shape == (1, 384)


def test_options_reach_the_server(
    server: Server, client: Client, server_any_dimensions: Server
) -> None:
    body = {"inputs": TEXTS[0], "normalize": False, "prompt": "query: "}
    expected = np.array(server.post("/embed", body).json(), np.float32)
    vectors = client.embed(TEXTS[0], normalize=False, prompt="query: ")
    np.testing.assert_array_equal(vectors, expected)
    assert client.embed(TEXTS, output_dtype="ubinary").dtype == np.uint8
    with Client(server_any_dimensions.url) as other:
        assert other.embed(TEXTS, dimensions=64).shape == (10, 64)
    with pytest.raises(RequestFailed, match="unknown field 'normalise'"):
        client.embed(TEXTS, normalise=True)  # type: ignore[call-arg]


def test_late_chunking_sends_all_chunks_in_one_request(server: Server, client: Client) -> None:
    body = {"inputs": TEXTS, "late_chunking": True}
    expected = np.array(server.post("/embed", body).json(), np.float32)
    np.testing.assert_array_equal(client.embed(TEXTS, late_chunking=True), expected)


@pytest.mark.full
def test_requests_respect_the_limits_of_the_server(
    gateway: FaultyGateway, tmp_path_factory: pytest.TempPathFactory, embedder: Embedder
) -> None:
    log = tmp_path_factory.mktemp("small") / "log"
    texts = [*TEXTS, "many words " * 40, *TEXTS]
    with Server(
        log, max_texts=4, max_tokens=200, max_body_bytes=600, api_key="old,sésame"
    ) as strict_server:
        with Client(strict_server.url, "sésame") as client:
            np.testing.assert_array_equal(client.embed(texts), embedder.embed(texts))
            assert client.info()["limits"]["max_texts"] == 4
        with Client(strict_server.url, "wrong") as client, pytest.raises(RequestFailed) as raised:
            client.embed(texts)
    assert (raised.value.status, raised.value.code) == (401, "invalid_api_key")


def test_the_index_of_an_error_counts_all_inputs_of_the_call(
    server: Server, client: Client
) -> None:
    texts = [*TEXTS[:7], "word " * 300, *TEXTS]
    for embed in (
        lambda: client.embed(texts, on_overflow="error"),
        lambda: run_async(server.url, lambda c: c.embed(texts, on_overflow="error"), batch=3),
    ):
        with pytest.raises(RequestFailed, match=r"302 tokens in input 7;") as raised:
            embed()
        error = raised.value
        assert (error.status, error.code, error.index) == (400, "input_too_long", 7)
        assert error.request_id and f"(400, input_too_long, request {error.request_id})" in str(
            error
        )
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
    with pytest.raises(RequestFailed, match=r"^inputs\.4: ") as raised:
        client.embed([*TEXTS[:4], None])  # type: ignore[arg-type]
    assert (raised.value.index, raised.value.param) == (4, "inputs")


def test_the_server_refuses_an_empty_list_of_texts(client: Client) -> None:
    with pytest.raises(RequestFailed, match="give at least one text"):
        client.embed([])


def test_truncation_by_default_is_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.embed(["word " * 300, *TEXTS], on_overflow="end")
    client.embed(TEXTS)
    assert not [record for record in caplog.records if record.name.startswith("embedwell")]
    client.embed(["word " * 300, *TEXTS])
    assert "truncated inputs: 1; see the option on_overflow" in caplog.text


@pytest.mark.full
def test_refused_requests_are_retried_after_retry_after(
    gateway: FaultyGateway, embedder: Embedder
) -> None:
    busy = [
        GatewayResponse(429, headers={"retry-after": "1"}),
        GatewayResponse(503, headers={"retry-after": "0"}),
    ]
    for embed in (
        lambda: Client(gateway.url).embed(TEXTS),
        lambda: run_async(gateway.url, lambda client: client.embed(TEXTS)),
    ):
        gateway.faults, gateway.bodies = [*busy], []
        np.testing.assert_array_equal(embed(), embedder.embed(TEXTS))
        assert len(gateway.bodies) == 3


def test_a_request_is_retried_after_a_broken_connection(
    gateway: FaultyGateway, embedder: Embedder
) -> None:
    gateway.faults = [None]
    with Client(gateway.url) as client:
        np.testing.assert_array_equal(client.embed(TEXTS), embedder.embed(TEXTS))
    assert len(gateway.bodies) == 2


def test_after_the_last_retry_the_error_is_that_of_the_last_response(
    gateway: FaultyGateway,
) -> None:
    body = b'{"error": {"message": "full", "param": null, "code": "overloaded", "index": null}}'
    gateway.faults = [GatewayResponse(429, body, {"retry-after": "0"})] * 9
    with Client(gateway.url, retries=2) as client, pytest.raises(RequestFailed) as raised:
        client.embed(TEXTS)
    assert (raised.value.status, raised.value.code, raised.value.message) == (
        429,
        "overloaded",
        "full",
    )
    assert len(gateway.bodies) == 3


def test_other_errors_are_not_retried(gateway: FaultyGateway) -> None:
    gateway.faults = [GatewayResponse(504, b"<h1>Timed out</h1>", {"x-request-id": "abc"})]
    with Client(gateway.url) as client, pytest.raises(RequestFailed) as raised:
        client.embed(TEXTS)
    assert str(raised.value) == "<h1>Timed out</h1> (504, http_504, request abc)"
    assert len(gateway.bodies) == 1


def test_a_response_that_is_not_the_servers_is_an_error(gateway: FaultyGateway) -> None:
    sign_in_page = GatewayResponse(200, b"<html>Sign in</html>", {"x-request-id": "abc"})
    for embed in (
        lambda: Client(gateway.url).embed(TEXTS),
        lambda: run_async(gateway.url, lambda client: client.embed(TEXTS)),
    ):
        gateway.faults = [sign_in_page]
        with pytest.raises(RequestFailed, match=r"Sign in.* \(200, invalid_answer, request abc\)$"):
            embed()


def test_an_error_without_a_response_has_no_status(gateway: FaultyGateway) -> None:
    with Client(gateway.url) as client:
        client.info()
        client._http.timeout = httpx.Timeout(0.3)
        gateway.faults = [1.0]
        with pytest.raises(RequestFailed) as raised:
            client.embed(TEXTS)
        assert (raised.value.status, raised.value.code) == (None, "timeout")
    with pytest.raises(RequestFailed, match=r"^127\.0\.0\.1:1 does not respond: "):
        Client("http://127.0.0.1:1", retries=0).info()
    with pytest.raises(RequestFailed, match="unreachable"):
        run_async("http://127.0.0.1:1", lambda client: client.info(), retries=0)


def test_the_first_failure_cancels_the_other_requests(gateway: FaultyGateway) -> None:
    gateway.faults = [GatewayResponse(500, b"broken")]
    with pytest.raises(RequestFailed, match=r"broken \(500, http_500\)"):
        run_async(gateway.url, lambda client: client.embed(TEXTS), batch=1, concurrency=2)
    assert len(gateway.bodies) < len(TEXTS)


def test_token_span_and_chunk_vectors_are_arrays(server: Server, client: Client) -> None:
    first, second = client.tokens(["Hi 🦊", "word " * 300])
    tokens = server.post("/tokens", {"inputs": "Hi 🦊"}).json()["results"][0]["tokens"]
    expected = np.array([token.pop("embedding") for token in tokens], np.float32)
    np.testing.assert_array_equal(first.vectors, expected)
    assert first.items == tokens and first.dropped == 0 and second.dropped == 46
    assert client.tokens("a b", spans=[[(0, 1)]])[0].vectors.shape == (1, 384)
    (chunks,) = run_async(
        server.url, lambda c: c.tokens(chunks=[["a", "b c"]], output_dtype="ubinary")
    )
    assert chunks.vectors.shape == (2, 48) and chunks.vectors.dtype == np.uint8
    assert [chunk["tokens"] for chunk in chunks.items] == [1, 2]


def test_similarity_scores_are_arrays_for_texts_and_vectors(server: Server, client: Client) -> None:
    vectors = client.embed(TEXTS)
    scores = client.similarity(TEXTS[:2], TEXTS)
    assert scores.shape == (2, 10) and scores.dtype == np.float32
    np.testing.assert_array_equal(client.similarity(vectors[:2], vectors), scores)
    np.testing.assert_array_equal(client.similarity(vectors[:4:2], vectors)[0], scores[0])
    pairs = run_async(server.url, lambda c: c.similarity(TEXTS, TEXTS[::-1], mode="pairwise"))
    assert pairs.shape == (10,)
    best = client.similarity(TEXTS[:2], TEXTS, top_k=3)
    assert best.shape == (2, 3) and best["index"][:, 0].tolist() == [0, 1]
    np.testing.assert_array_equal(best["score"], -np.sort(-scores)[:, :3])


def test_near_texts_are_named_with_their_scores(
    server: Server, client: Client, embedder: Embedder
) -> None:
    texts, candidates = ["wheat", "iron"], ["a metal", "a cereal", "a colour"]
    cosines = embedder.embed(texts) @ embedder.embed(candidates).T
    [wheat, iron] = client.neighbors(texts, candidates=candidates, k=1)
    assert [(near.index, near.text) for near in (*wheat, *iron)] == [
        (1, "a cereal"),
        (0, "a metal"),
    ]
    assert [wheat[0].score, iron[0].score] == pytest.approx([cosines[0, 1], cosines[1, 0]])
    assert run_async(server.url, lambda c: c.neighbors(texts, candidates=candidates, k=1)) == [
        wheat,
        iron,
    ]


def test_an_analogy_and_an_odd_text_are_found(server: Server, client: Client) -> None:
    royals = ["prince", "queen", "bread"]
    best = client.analogy(["king", "woman"], ["man"], candidates=royals, method="3CosMul")
    assert best[0].text == "queen" and {near.text for near in best} == {*royals}
    assert best == run_async(
        server.url,
        lambda c: c.analogy(["king", "woman"], ["man"], candidates=royals, method="3CosMul"),
    )
    meals = ["breakfast", "cereal", "dinner", "lunch"]
    odd = run_async(server.url, lambda c: c.doesnt_match(meals))
    assert client.doesnt_match(meals) == odd == "cereal"


def test_positions_are_arrays(server: Server, client: Client) -> None:
    table = client.positions(scheme="alibi", heads=2, count=3, causal=True)
    assert table["scheme"] == "alibi" and table["positions"].tolist() == [0, 1, 2]
    assert table["positions"].dtype == np.int64 and table["bias"].dtype == np.float32
    assert table["bias"][0, 0].tolist() == [0, -np.inf, -np.inf]
    assert run_async(server.url, lambda c: c.positions(positions=[0, 511]))["vectors"].shape == (
        2,
        384,
    )


def test_the_progress_bar_counts_texts(
    server: Server, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.embed(TEXTS)
    assert capsys.readouterr().err == ""
    client.embed(TEXTS, progress=True)
    assert "10/10" in capsys.readouterr().err
    run_async(server.url, lambda client: client.embed(TEXTS, progress=True))
    assert "10/10" in capsys.readouterr().err


def test_the_progress_bar_without_tqdm_names_the_package_to_install(server: Server) -> None:
    program = f"""
import sys
sys.modules["tqdm"] = None  # as if it were not installed
from embedwell_client import Client
with Client("{server.url}") as client:
    assert client.embed("a").shape == (1, 384)
    client.embed("a", progress=True)
"""
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert "ImportError: the progress bar needs tqdm: pip install tqdm" in process.stderr


def test_the_client_loads_neither_the_server_nor_torch() -> None:
    program = """
import sys
import embedwell_client
loaded = {name.partition(".")[0] for name in sys.modules if name.startswith("embedwell")}
assert loaded == {"embedwell_client"}, loaded
assert not {"torch", "fastapi", "pydantic", "tokenizers", "tqdm"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("concurrency", [0, -1])
def test_a_concurrency_below_one_is_refused(concurrency: int) -> None:
    with pytest.raises(ValueError, match=f"^concurrency is {concurrency}; it must be 1 or more$"):
        AsyncClient("http://localhost:8080", concurrency=concurrency)


def test_the_key_is_not_in_the_repr() -> None:
    assert "secret" not in repr(Client("http://localhost:8080", "secret"))


def test_special_characters_are_sent_unchanged(gateway: FaultyGateway) -> None:
    texts = ['\x00 \n " \\ 🦊 naïve']
    with Client(gateway.url) as client:
        client.embed(texts)
    assert orjson.loads(gateway.bodies[0]) == {"inputs": texts}
