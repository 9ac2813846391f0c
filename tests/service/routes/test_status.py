"""GET /live, /ready, /health, /info, /metrics and /docs, and the headers of every response."""

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

import httpx
import pytest

from embedwell import __version__
from embedwell.compute.admission import Admission, KnownRate
from embedwell.compute.engine_session import EngineSession
from embedwell.engine.wire.engine_sockets import request_connection
from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.errors import EngineUnavailable, Overloaded, ServiceError
from embedwell.http.request_context import ModelPaths
from embedwell.routes.info import Info, server_info
from embedwell.routes.status import check_ready, health_router
from embedwell.settings.settings import Settings
from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.cpu_backend.library import best_isa, features
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.hub.sources import DEFAULT
from embedwell_models.model_files.vector_recipe import VectorRecipe
from embedwell_models.vectors import AllowedDimensions
from tests.conftest import COMPILED, Folder
from tests.service.responses import error
from tests.service.routes.committed import DOCUMENT
from tests.service.server import MAX_ISA, Server


def test_a_ready_server_says_so(server: Server) -> None:
    assert server.client.get("/live").json() == {"status": "live"}
    for path in ("/ready", "/health", "/ping", "/"):
        response = server.client.get(path).json()
        assert response["status"] == "ready" and abs(response["unix"] - time.time()) < 600


@dataclass
class Health:
    """A model, kept loaded and ready unless said otherwise."""

    admission: Admission
    should_be_loaded: bool = True
    ready: bool = True
    engines_down: list[str] | None = None


def test_a_server_is_not_ready_when_even_a_query_would_wait_too_long() -> None:
    admission = Admission(1.0, KnownRate(60.0), SharedCounters.private())
    routes = health_router([Health(admission)], lambda: False)
    ready = next(route for route in routes.routes if route.path == "/ready")  # type: ignore[attr-defined]
    with admission.admit(1000):
        assert asyncio.run(ready.endpoint())["status"] == "ready"  # type: ignore[attr-defined]
    with admission.admit(60), admission.admit(60), pytest.raises(Overloaded) as refused:
        asyncio.run(ready.endpoint())  # type: ignore[attr-defined]
    assert 2.0 <= (refused.value.retry_after or 0) <= 3.0


def ready(*models: Health) -> int:
    """Return the status of /ready of a server with such models."""
    routes = health_router(models, lambda: False)
    route = next(route for route in routes.routes if route.path == "/ready")  # type: ignore[attr-defined]
    try:
        asyncio.run(route.endpoint())  # type: ignore[attr-defined]
    except ServiceError as refused:
        return refused.status
    return 200


def test_below_its_name_a_model_is_ready_by_itself() -> None:
    idle = Admission(1.0, KnownRate(60.0), SharedCounters.private())
    models = Health(idle), Health(idle, ready=False)
    with ModelPaths({}).chosen(0):
        assert ready(*models) == 200
    with ModelPaths({}).chosen(1):
        assert ready(*models) == 503


def test_the_check_of_weaviate_concerns_the_same_models() -> None:
    idle = Admission(1.0, KnownRate(60.0), SharedCounters.private())
    models = Health(idle), Health(idle, ready=False)
    with ModelPaths({}).chosen(0):
        assert [*check_ready(models, lambda: False)] == [models[0]]
    with pytest.raises(EngineUnavailable):
        check_ready(models, lambda: False)


def test_a_server_of_several_models_is_ready_with_those_that_it_needs() -> None:
    idle = Admission(1.0, KnownRate(60.0), SharedCounters.private())
    assert ready(Health(idle), Health(idle, should_be_loaded=False, ready=False)) == 200
    assert ready(Health(idle), Health(idle, ready=False)) == 503
    assert ready(Health(idle, should_be_loaded=False, ready=False)) == 200
    full = Admission(1.0, KnownRate(60.0), SharedCounters.private())
    with full.admit(60), full.admit(60):
        assert ready(Health(full), Health(idle)) == 200, "one of them takes a query"
        assert ready(Health(full), Health(full)) == 429
        assert ready(Health(full), Health(idle, should_be_loaded=False)) == 429


def test_info_has_the_model_its_precision_and_the_limits(server: Server) -> None:
    content = server.client.get("/info").json()
    assert (content["version"], content["model"]) == (__version__, DEFAULT)
    engine = content["engine"]
    assert engine["dtype"] == "float32" and engine["device"] == "cpu" and engine["threads"] >= 1
    assert engine["pooling"] == ["mean"] and engine["max_length"] == 256 and engine["dim"] == 384
    assert re.fullmatch("[0-9a-f]{16}-float32", engine["fingerprint"])
    assert engine["kernels"] == best_isa("float32")
    assert engine["torch"] is None or best_isa("float32") is None
    assert engine["graphs"] == {"state": "off", "failed": []}
    assert content["limits"]["max_texts"] == 2048
    assert engine["max_batch_tokens"] == 2048, "the default of 0 is what was chosen"


@pytest.mark.full
def test_info_has_the_instruction_set_below_the_cap(tiny_bert: Folder, tmp_path: Path) -> None:
    cap, model = "none" if MAX_ISA == "none" else "avx2", tiny_bert(**COMPILED)
    with Server(tmp_path / "log", model=model, isa=cap) as capped:
        engine = capped.client.get("/info").json()["engine"]
        assert engine["kernels"] == best_isa("float32", features(cap))
    with Server(tmp_path / "log", model=model, isa="none", dtype="auto") as torch_alone:
        engine = torch_alone.client.get("/info").json()["engine"]
        assert engine["kernels"] is None
        assert engine["torch"] == "a processor or an installation without compiled kernels"
        assert [trial["dtype"] for trial in engine["trials"]] == ["float32"]


def _metric(server: Server, name: str) -> float:
    text = server.client.get("/metrics").text
    actual = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(actual.group(1)) if actual else 0.0


def test_metrics_count_requests_texts_and_tokens(server: Server) -> None:
    ok = 'embedwell_requests_total{path="/embed",status="200"}'
    bad = 'embedwell_requests_total{path="/embed",status="400"}'
    names = [ok, bad, "embedwell_texts_total", "embedwell_tokens_total"]
    names += ["embedwell_truncated_texts_total", "embedwell_compute_seconds_count"]
    before = [_metric(server, name) for name in names]
    server.post("/embed", {"inputs": ["a b", "c " * 300]})
    server.post("/embed", {"inputs": []})
    after = [_metric(server, name) for name in names]
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1, 2, 260, 1, 1]
    assert _metric(server, "embedwell_ready") == 1
    assert _metric(server, "embedwell_queued_tokens") == 0


def test_the_metrics_page_has_every_metric_with_its_type(server: Server) -> None:
    text = server.client.get("/metrics").text
    served = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    document = Path("docs/observability.md").read_text()
    assert re.findall(r"^- `(embedwell_\w+)` \((\w+)\):", document, re.MULTILINE) == served


def test_an_unknown_path_has_no_metric(server: Server) -> None:
    assert error(server.client.get("/no/such/path"), 404)["code"] == "not_found"
    assert "/no/such/path" not in server.client.get("/metrics").text


@pytest.mark.parametrize(
    ("path", "similar"),
    [
        ("/embeddigs", "POST /embeddings"),
        ("/position", "GET /positions, POST /positions"),
        ("/v1/model", "GET /v1/models"),
        ("/v1/similarity", "POST /similarity"),
        ("/v1/info", "GET /info"),
        ("/multi-vector", "POST /v1/multi-vector"),
        ("/nothing", ""),
        ("/rerank/" + "x" * 60_000, ""),
    ],
)
def test_the_error_for_an_unknown_path_names_similar_ones(
    server: Server, path: str, similar: str
) -> None:
    message = error(server.client.get(path), 404)["message"]
    assert message.startswith(f"there is no route {path[:500]}")
    assert (f"did you mean {similar}" in message) if similar else ("did you mean" not in message)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/api/generate"])
def test_the_error_for_a_path_of_a_chat_says_that_no_text_is_generated(
    server: Server, path: str
) -> None:
    message = error(server.client.post(path, json={}), 404)["message"]
    assert message.startswith(f"there is no route {path}: this server does not generate text;")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/embed", "POST"),
        ("HEAD", "/embed", "POST"),
        ("PUT", "/positions", "GET, HEAD, POST"),
        ("PUT", "/", "GET, HEAD, POST"),
        ("POST", "/ping", "GET, HEAD"),
        ("POST", "/live", "GET, HEAD"),
        ("DELETE", "/v1/models/any", "GET, HEAD"),
    ],
)
def test_the_error_for_a_wrong_method_lists_the_allowed_ones(
    server: Server, method: str, path: str, allowed: str
) -> None:
    response = server.client.request(method, path)
    assert response.status_code == 405 and response.headers["allow"] == allowed
    if method != "HEAD":
        assert error(response, 405)["code"] == "method_not_allowed"


@pytest.mark.parametrize(
    "path", ["/", "/ping", "/live", "/ready", "/health", "/metrics", "/info", "/v1/models"]
)
def test_get_routes_have_head(server: Server, path: str) -> None:
    response = server.client.head(path)
    assert response.status_code == 200 and response.content == b""
    assert response.headers["content-type"] == server.client.get(path).headers["content-type"]


def test_a_request_id_is_echoed_and_an_unprintable_one_is_not(server: Server) -> None:
    assert (
        server.post("/embed", {"inputs": "a"}, **{"x-request-id": "mine-1"}).headers["x-request-id"]
        == "mine-1"
    )
    for bad in ("a b", "x" * 129, "<script>"):
        actual = server.post("/embed", {"inputs": "a"}, **{"x-request-id": bad})
        assert re.fullmatch("[0-9a-f]{32}", actual.headers["x-request-id"])


def test_the_trace_id_is_the_default_request_id(server: Server) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    actual = server.client.get("/live", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    assert actual.headers["x-request-id"] == trace


def test_every_response_has_token_and_timing_headers(server: Server) -> None:
    responses = [
        server.client.get("/live"),
        server.post("/embed", {"inputs": "a"}),
        server.post("/embed", {}),
        server.client.get("/nothing"),
    ]
    for response in responses:
        for name in ("tokens", "truncated", "tokenize-us", "queue-us", "compute-us", "total-us"):
            assert int(response.headers[f"x-{name}"]) >= 0
    times = responses[1].headers
    parts = sum(int(times[f"x-{name}-us"]) for name in ("tokenize", "queue", "compute"))
    assert 0 < parts <= int(times["x-total-us"])


def test_the_openapi_document_describes_every_endpoint(server: Server) -> None:
    document = server.client.get("/openapi.json").json()
    assert set(document["paths"]) == set(DOCUMENT["paths"])
    for reference in re.findall(r'"#/components/schemas/(\w+)"', str(document).replace("'", '"')):
        assert reference in document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], path
            without_body = method != "post" or path.startswith("/models/")
            without_body = without_body or "cancel" in path or path == "/v1/check-api-key"
            assert without_body or operation["requestBody"]["required"]


def test_the_docs_page_loads_nothing_from_other_hosts(server: Server) -> None:
    actual = server.client.get("/docs")
    assert actual.headers["content-type"].startswith("text/html")
    assert "openapi.json" in actual.text
    assert not re.findall(r"(?:https?:)?//\w[\w.]*\.\w+|<link|\ssrc=|@import", actual.text)


@pytest.mark.parametrize("path", ["/live", "/embed"])
def test_a_connection_is_kept_after_an_error(server: Server, path: str) -> None:
    with httpx.Client(base_url=server.url, timeout=120) as client:
        for _ in range(3):
            client.post(path, content=b"{")
        assert client.get("/live").status_code == 200


ENDLESS = 1 << 30


class WithoutFiles(ModelDescription):
    """A model without a folder."""

    @cached_property
    def weights_format(self) -> Literal["safetensors", "GGUF"]:
        return "GGUF"

    @cached_property
    def stored_numbers(self) -> Mapping[str, int]:
        return {"Q8_0": 5}


def info(recipe: VectorRecipe, rate: float = 0.0, **settings: object) -> Info:
    """Return /info before the engine has started. rate: of the engine, in tokens per second."""
    values = Settings(**{"workers": 1, **settings})  # type: ignore[arg-type]
    dimensions = AllowedDimensions.from_setting("none", 384, ())
    link = EngineSession(partial(request_connection, 0), SharedCounters.private())
    link.rate.update(rate)
    config = plain_config(
        family="bert",
        vocab_size=9,
        hidden_size=4,
        num_layers=1,
        num_heads=1,
        intermediate_size=4,
        max_positions=9,
        norm_eps=0.1,
    )
    spec = ModelSpec(config=config, tensors={})
    return server_info(values, link, WithoutFiles(Path(), Path(), spec, recipe, Path()), dimensions)


def test_info_says_what_the_files_hold(server: Server) -> None:
    stored = info(VectorRecipe(max_length=9))["weights"]
    assert stored == {"format": "GGUF", "parameters": {"Q8_0": 5}}
    weights = server.client.get("/info").json()["weights"]
    assert weights["format"] == "safetensors" and weights["parameters"]["F32"] > 22_000_000


def test_info_has_teis_fields(server: Server) -> None:
    content = server.client.get("/info").json()
    expected = {
        "model_id": DEFAULT,
        "model_sha": None,
        "model_dtype": "float32",
        "served_model_name": DEFAULT,
        "model_type": {"embedding": {"pooling": "mean"}},
        "max_input_length": 256,
        "max_batch_tokens": 2048,
        "max_batch_requests": None,
        "auto_truncate": True,
        "tokenization_workers": 1,
    }
    assert {name: content[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("max_length", "max_texts", "size"),
    [(256, 2048, 1171), (256, 100, 100), (8192, 2048, 36), (32_768, 2048, 32), (ENDLESS, 2048, 32)],
)
def test_client_batch_size_is_texts_of_full_length_but_at_least_teis_default(
    max_length: int, max_texts: int, size: int
) -> None:
    actual = info(VectorRecipe(max_length=max_length), max_texts=max_texts)
    assert actual["max_client_batch_size"] == size


@pytest.mark.parametrize(
    ("pooling", "name"),
    [(("cls",), "cls"), (("lasttoken",), "last_token"), (("mean", "max"), "mean+max")],
)
def test_the_pooling_has_teis_name(pooling: tuple[str, ...], name: str) -> None:
    actual = info(VectorRecipe(max_length=9, pooling=pooling))
    assert actual["model_type"] == {"embedding": {"pooling": name}}


def test_max_batch_tokens_is_at_least_the_maximum_length(server: Server) -> None:
    assert info(VectorRecipe(max_length=9))["max_batch_tokens"] == 9  # before the engine starts
    assert info(VectorRecipe(max_length=9), max_batch_tokens=20)["max_batch_tokens"] == 20
    assert info(VectorRecipe(max_length=30), max_batch_tokens=20)["max_batch_tokens"] == 30
    assert server.client.get("/info").json()["max_batch_tokens"] == 2048


def test_max_concurrent_requests_is_limited_by_queue_and_connections() -> None:
    recipe = VectorRecipe(max_length=9)
    assert info(recipe, rate=90.0, max_wait=5.0)["max_concurrent_requests"] == 50
    few = info(recipe, rate=90.0, max_wait=5.0, max_connections=10, workers=2)
    assert few["max_concurrent_requests"] == 20
    assert info(recipe)["max_concurrent_requests"] == 1  # until the throughput is known


def test_engine_fields_are_null_until_it_has_started(tmp_path: Path) -> None:
    actual = info(VectorRecipe(max_length=9), model=str(tmp_path), revision="a")
    assert actual["engine"] is None and actual["model_dtype"] is None
    assert (actual["model_id"], actual["model_sha"]) == (str(tmp_path), "a")
    assert actual["served_model_name"] == actual["model"] == tmp_path.name
