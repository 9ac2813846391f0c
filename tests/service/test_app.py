"""The routes of the application: which need no key, and in which format they refuse requests."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from pydantic import SecretStr

from embedwell.app import create_app
from embedwell.compute.engine_session import EngineSession
from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.errors import BadRequest
from embedwell.http.error_responses import respond
from embedwell.http.middleware import Middleware
from embedwell.inherited import InheritedModel, InheritedServer
from embedwell.settings.settings import Settings
from tests.models.cross_encoder import write_cross_encoder

FAULT = BadRequest("no", param="inputs", index=3)
REST = {"code": "invalid_request", "param": "inputs", "index": 3}
FIELDS = {"message": "no", "type": "invalid_request_error", "request_id": "1", **REST}
OPENAI = {"error": FIELDS, "message": "no", "detail": "no", "type": "Validation", "code": 400}
VLLM = {**OPENAI, "error": {**FIELDS, "type": "BadRequestError"}}
VOYAGE = {"detail": "no", "request_id": "1", **REST}
NATIVE = {"error": "no", "error_type": "Validation", "request_id": "1", **REST}
COHERE = {"id": "1", "message": "no", **REST}
WITHOUT_KEY = {
    *("/", "/ping", "/live", "/ready", "/health", "/.well-known/live", "/.well-known/ready"),
    *("/metrics", "/docs", "/openapi.json", "/playground", "/playground/", "/playground/a.js"),
}


@pytest.fixture(scope="module")
def app(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Middleware:
    """The application of a server with a key for an embedder and a reranker, without engines."""
    folders = [minilm_folder, write_cross_encoder(tmp_path_factory.mktemp("judge"))]
    models, engines = [], []
    for index, folder in enumerate(folders):
        settings = Settings(api_key=SecretStr("sesame"), model=str(folder))
        models.append(InheritedModel(settings, folder, index, 1, counters_fd=0, connect_fd=0))
        engines.append(EngineSession(models[-1].connect_engine, SharedCounters.private()))
    return create_app(InheritedServer(models[0].settings, models, 0, []), engines)


def test_only_health_checks_and_pages_need_no_key(app: Middleware) -> None:
    paths = [*app.traits, "/playground/a.js", "/m/judge/embed", "/v1/models/judge", "/v1/files/1"]
    requests = list(itertools.product(("GET", "HEAD", "POST", "DELETE"), paths))

    async def statuses() -> dict[tuple[str, str], int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return {each: (await client.request(*each)).status_code for each in requests}

    answered = {request for request, status in asyncio.run(statuses()).items() if status != 401}
    assert answered == {(method, path) for method in ("GET", "HEAD") for path in WITHOUT_KEY}


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("/embed", NATIVE),
        ("/", NATIVE),
        ("/rerank", NATIVE),
        ("/positions", NATIVE),
        ("/api/embed", NATIVE),
        ("/api/nowhere", NATIVE),
        ("/nowhere", NATIVE),
        ("/v10/embeddings", NATIVE),
        ("/v1/embeddings", OPENAI),
        ("/embeddings", OPENAI),
        ("/models", OPENAI),
        ("/models/a/pipeline/feature-extraction", NATIVE),
        ("/v1/models/a\nb", OPENAI),
        ("/v1/rerank", OPENAI),
        ("/v1/score", OPENAI),
        ("/v1/files", OPENAI),
        ("/v1/batches/1/cancel", OPENAI),
        ("/v1/check-api-key", OPENAI),
        ("/v1/chat/completions", OPENAI),
        ("/openai/deployments/a/embeddings", OPENAI),
        ("/openai/nowhere", OPENAI),
        ("/openais", NATIVE),
        ("/pooling", VLLM),
        ("/v1/embed", COHERE),
        ("/v2/embed", COHERE),
        ("/v2/rerank", COHERE),
        ("/v2/nowhere", COHERE),
    ],
)
def test_the_path_selects_the_format(app: Middleware, path: str, content: dict[str, Any]) -> None:
    error_format = app.traits[path].error_format
    assert orjson.loads(respond(FAULT, "1", error_format).body) == content
    with_voyage = VOYAGE if content is OPENAI else content
    assert orjson.loads(respond(FAULT, "1", error_format, b"Voyage/v1 x").body) == with_voyage


def test_the_upload_of_a_file_has_limits_of_its_own(app: Middleware) -> None:
    uploads = {path for path, traits in app.traits.items() if traits.uploads}
    assert uploads == {"/v1/files"}
