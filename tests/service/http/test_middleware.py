"""The middleware around FastAPI: what goes wrong there is told and logged as anywhere."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Scope

from service.api.body import Body
from service.api.router import Context, api_router, direct_routes
from service.errors import BadRequest
from service.http import handlers
from service.http.browser_checks import BrowserChecks
from service.http.keys import ApiKeys
from service.http.middleware import Middleware
from service.http.request_body import HttpLimits
from service.http.timeouts import Timeouts
from service.metrics import Metrics
from service.process.shared_counters import SharedCounters

KEY = "sesame"


async def torn() -> AsyncIterator[bytes]:
    yield b"[1, "
    raise RuntimeError("a secret")


def fastapi() -> FastAPI:
    app = FastAPI()
    handlers.install(app)

    @app.get("/fails")
    async def fails() -> None:
        raise RuntimeError("a secret")

    @app.get("/refuses")
    async def refuses() -> None:
        raise BadRequest("not so")

    @app.get("/nested/fails")
    async def nested() -> str:
        return "nested"

    @app.get("/tears")
    async def tears() -> StreamingResponse:
        return StreamingResponse(torn())

    return app


METRICS = Metrics(SharedCounters.private())
METRICS.track(["/nothing", "/fails"])
ROUTES = api_router("tests")


@ROUTES.post("/nothing")
@ROUTES.post("/alias", include_in_schema=False)
async def nothing(context: Context, body: Body) -> None:
    return None


def ask(
    path: str, method: str = "GET", root_path: str = "/prefix", **headers: str
) -> list[Message]:
    limits, sent, app = HttpLimits(100, Timeouts(1.0)), list[Message](), fastapi()
    middleware = Middleware(
        app,
        direct_routes(ROUTES.routes),
        root_path=root_path,
        paths=[route.path for route in app.routes if isinstance(route, Route)],
        limits=limits,
        keys=ApiKeys([KEY]),
        metrics=METRICS,
        browsers=BrowserChecks("*", "*"),
    )

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    given = {"authorization": f"Bearer {KEY}"} | headers
    lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()]
    request: Scope = {"method": method, "path": path, "headers": lines, "query_string": b""}
    request["http_version"] = "1.0"
    scope = {**request, "type": "http", "server": None, "asgi": {"spec_version": "2.4"}}
    asyncio.run(middleware(scope, receive, send))
    return sent


@pytest.mark.parametrize(("path", "status"), [("/fails", 500), ("/tears", 200)])
def test_what_nobody_expected_is_logged_once_with_its_request(
    path: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        head, *parts = ask(path)
    (record,) = caplog.records
    assert dict(head["headers"])[b"x-request-id"].decode() in record.getMessage()
    assert record.exc_info is not None and "a secret" in str(record.exc_info[1])
    assert head["status"] == status and b"secret" not in b"".join(part["body"] for part in parts)


def test_what_is_refused_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    head, body = ask("/refuses")
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
def test_what_is_refused_is_counted_with_its_path(
    path: str, counted: str, status: int, headers: dict[str, str]
) -> None:
    def count() -> float:
        line = f'embedding_requests_total{{path="{counted}",status="{status}"}} '
        return float((METRICS.text().decode() + line + "0").partition(line)[2].split()[0])

    before = count()
    assert ask(path, "POST", **headers)[0]["status"] == status
    assert count() == before + 1


@pytest.mark.parametrize(
    ("root_path", "path", "status"),
    [
        (
            "/nested",
            "/nested/fails",
            200,
        ),  # a path of the server, whose gateway has stripped /nested
        ("/nested", "/fails", 500),
        ("/nested", "/nested/nested/fails", 200),  # past the gateway
        ("/nested", "/nested/refuses", 400),
        ("/ref", "/refuses", 400),  # part of a name is no prefix
        ("/ref", "/reffails", 404),
        ("/ref", "/ref", 404),
    ],
)
def test_a_path_that_the_server_has_is_not_stripped_again(
    root_path: str, path: str, status: int
) -> None:
    assert ask(path, root_path=root_path)[0]["status"] == status
