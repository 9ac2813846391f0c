"""The middleware around FastAPI: errors, logs, metrics and path prefixes."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse
from starlette.types import Message, Scope

from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.errors import BadRequest, Overloaded
from embedwell.fastapi_app import add_exception_handlers
from embedwell.http.access import ApiKeys, BrowserChecks
from embedwell.http.error_responses import OPENAI
from embedwell.http.http_limits import HttpLimits, Timeouts
from embedwell.http.middleware import Middleware
from embedwell.routes.common.body import Body
from embedwell.routes.common.router import (
    RequestDep,
    api_router,
    direct_routes,
    traits_by_path,
    with_traits,
)
from embedwell.telemetry.metrics import Metrics

KEY = "sesame"


async def failing_stream() -> AsyncIterator[bytes]:
    yield b"[1, "
    raise RuntimeError("a secret")


def create_app() -> FastAPI:
    app = FastAPI()
    add_exception_handlers(app)

    @app.get("/fails")
    async def fails() -> None:
        raise RuntimeError("a secret")

    @app.get("/refuses")
    async def bad_request() -> None:
        raise BadRequest("not so")

    @app.get("/nested/fails")
    async def nested() -> str:
        return "nested"

    @app.get("/tears")
    async def broken_stream() -> StreamingResponse:
        return StreamingResponse(failing_stream())

    return app


METRICS = Metrics(SharedCounters.private())
METRICS.track(["/nothing", "/fails"])
ROUTER = api_router("tests")
OPENAI_ROUTER = api_router("tests", error_format=OPENAI, base_path="/v1/")


@ROUTER.post("/nothing")
@with_traits(ROUTER, computes=False).post("/alias", include_in_schema=False)
@OPENAI_ROUTER.post("/v1/nothing")
async def empty(context: RequestDep, body: Body) -> None:
    return None


def refuse(body_bytes: int) -> None:
    raise Overloaded(f"refused {body_bytes} bytes", retry_after=3)


def messages_of(
    path: str, method: str = "GET", root_path: str = "/prefix", **headers: str
) -> list[Message]:
    limits, sent, app = HttpLimits(100, Timeouts(1.0)), list[Message](), create_app()
    middleware = Middleware(
        app,
        direct_routes(ROUTER),
        traits_by_path([*app.routes, *ROUTER.routes, *OPENAI_ROUTER.routes]),
        root_path=root_path,
        limits=limits,
        keys=ApiKeys([KEY]),
        metrics=METRICS,
        browsers=BrowserChecks("*", "*"),
        check_load=refuse,
    )

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    sent_headers = {"authorization": f"Bearer {KEY}"} | headers
    lines = [
        (name.replace("_", "-").encode(), value.encode()) for name, value in sent_headers.items()
    ]
    request: Scope = {"method": method, "path": path, "headers": lines, "query_string": b""}
    request["http_version"] = "1.0"
    scope = {**request, "type": "http", "server": None, "asgi": {"spec_version": "2.4"}}
    asyncio.run(middleware(scope, receive, send))
    return sent


@pytest.mark.parametrize(("path", "status"), [("/fails", 500), ("/tears", 200)])
def test_unexpected_errors_are_logged_once_with_their_request(
    path: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        head, *parts = messages_of(path)
    (record,) = caplog.records
    assert dict(head["headers"])[b"x-request-id"].decode() in record.getMessage()
    assert record.exc_info is not None and "a secret" in str(record.exc_info[1])
    assert head["status"] == status and b"secret" not in b"".join(part["body"] for part in parts)


def test_refused_requests_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    head, body = messages_of("/refuses")
    assert head["status"] == 400 and b'"error":"not so"' in body["body"]
    assert not caplog.records


@pytest.mark.parametrize(
    ("path", "counted"),
    [
        ("/nothing", "/nothing"),
        ("/alias", "/nothing"),
        ("/prefix/nothing", "/nothing"),
        ("/fails", "/fails"),
        ("/nowhere", "other"),
    ],
)
@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (401, {"authorization": "Bearer none"}),
        (413, {"content_length": "1000"}),
        (415, {"content_type": "text/xml"}),
    ],
)
def test_refused_requests_are_counted_with_their_path(
    path: str, counted: str, status: int, headers: dict[str, str]
) -> None:
    def count() -> float:
        line = f'embedwell_requests_total{{path="{counted}",status="{status}"}} '
        return float((METRICS.render().decode() + line + "0").partition(line)[2].split()[0])

    before = count()
    assert messages_of(path, "POST", **headers)[0]["status"] == status
    assert count() == before + 1


@pytest.mark.parametrize(
    ("root_path", "path", "status"),
    [
        ("/nested", "/nested/fails", 200),  # a route of the app; the gateway has stripped /nested
        ("/nested", "/fails", 500),
        ("/nested", "/nested/nested/fails", 200),  # sent without the gateway
        ("/nested", "/nested/refuses", 400),
        ("/ref", "/refuses", 400),  # part of a segment is not a prefix
        ("/ref", "/reffails", 404),
        ("/ref", "/ref", 404),
    ],
)
def test_the_root_path_is_stripped_only_from_unknown_paths(
    root_path: str, path: str, status: int
) -> None:
    assert messages_of(path, root_path=root_path)[0]["status"] == status


def test_a_request_is_refused_unread_in_the_format_of_its_client() -> None:
    head, body = messages_of("/nothing", "POST", content_length="90")
    assert head["status"] == 429 and dict(head["headers"])[b"retry-after"] == b"3"
    assert b'"error":"refused 90 bytes","error_type":"Overloaded"' in body["body"]


@pytest.mark.parametrize(
    ("path", "status", "headers"),
    [
        ("/nothing", 401, {"content_length": "90", "authorization": "Bearer none"}),
        ("/nothing", 413, {"content_length": "900"}),
        ("/nothing", 415, {"content_length": "90", "content_type": "text/xml"}),
        ("/nothing", 400, {}),  # its size is unknown: it is read, and empty
        ("/nothing", 400, {"content_length": "90", "content_encoding": "identity"}),
        ("/alias", 400, {"content_length": "90"}),  # is not among the paths that compute
    ],
)
def test_a_request_is_refused_unread_after_all_other_checks_of_its_head(
    path: str, status: int, headers: dict[str, str]
) -> None:
    assert messages_of(path, "POST", **headers)[0]["status"] == status


def test_errors_for_voyages_python_client_have_its_format_before_the_body_is_read() -> None:
    _, body = messages_of(
        "/v1/nothing", "POST", authorization="Bearer none", user_agent="Voyage/v1 PythonBindings/1"
    )
    assert b'"detail":"Incorrect API key' in body["body"] and b'"error"' not in body["body"]
