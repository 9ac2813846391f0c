"""Routes that are called directly, behind the middleware, without a server."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException
from fastapi.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.errors import BadRequest, ClientDisconnected
from embedwell.fastapi_app import add_exception_handlers
from embedwell.http.access import BrowserChecks
from embedwell.http.error_responses import OPENAI
from embedwell.http.http_limits import HttpLimits, Timeouts
from embedwell.http.middleware import Middleware
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import Body
from embedwell.routes.common.openapi_responses import BODY_ERRORS
from embedwell.routes.common.router import (
    DirectRoute,
    RequestDep,
    api_router,
    direct_routes,
    head_routes,
    read_body,
    traits_by_path,
    with_traits,
)
from embedwell.telemetry.metrics import Metrics


class Numbers(Body):
    numbers: list[int]


ROUTES = api_router("tests")


@ROUTES.post("/add")
@ROUTES.post("/plus", include_in_schema=False)
@with_traits(ROUTES, error_format=OPENAI).post("/v1/sums", include_in_schema=False)
async def add_numbers(context: RequestDep, body: Numbers) -> Any:
    if not body.numbers:
        raise BadRequest("nothing to add", code="no_input")
    if body.numbers == [13]:
        raise RuntimeError("a secret")
    return {"sum": sum(body.numbers)}


@ROUTES.post("/scaled")
async def scale(context: RequestDep, body: Numbers, factor: int = 1) -> dict[str, Any]:
    return {"numbers": [factor * number for number in body.numbers], "request": context.id}


@ROUTES.get("/vector")
async def vector() -> Any:
    return {"vector": np.ones(2)}  # which FastAPI cannot encode


@ROUTES.get("/text")
async def text() -> PlainTextResponse:
    return PlainTextResponse("text")


def refuse() -> None:
    raise HTTPException(403)


@ROUTES.get("/refused", dependencies=[Depends(refuse)])
@ROUTES.get("/created", status_code=201)
async def plain() -> str:
    return "content"


def fastapi() -> FastAPI:
    app = FastAPI()
    app.router.routes.extend(ROUTES.routes)
    add_exception_handlers(app)
    return app


async def accept_all(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 202, "headers": []})
    await send({"type": "http.response.body", "body": b"null"})


@dataclass
class Exchange:
    """An ASGI request and the messages of its response."""

    path: str
    parts: list[bytes]
    method: str = "POST"
    sent: list[Message] = field(default_factory=list)

    async def receive(self) -> Message:
        part = self.parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self.parts)}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        status: int = self.sent[0]["status"]
        return status

    @property
    def content(self) -> Any:
        return orjson.loads(self.sent[1]["body"])


def post(
    path: str,
    *parts: bytes,
    method: str = "POST",
    max_body_bytes: int = 100,
    query: bytes = b"",
    app: ASGIApp = accept_all,
) -> Exchange:
    limits, metrics = HttpLimits(max_body_bytes, Timeouts(1.0)), Metrics(SharedCounters.private())
    middleware = Middleware(
        app,
        direct_routes(ROUTES),
        traits_by_path(ROUTES.routes),
        root_path="/prefix",
        limits=limits,
        keys=None,
        metrics=metrics,
        browsers=BrowserChecks("*", "*"),
    )
    exchange = Exchange(path, list(parts), method)
    scope: Scope = {"type": "http", "method": method, "path": path, "query_string": query}
    scope["headers"] = [(b"content-type", b"application/json")]
    scope["http_version"] = "1.0"
    asyncio.run(middleware(scope, exchange.receive, exchange.send))
    return exchange


@pytest.mark.parametrize("path", ["/add", "/plus", "/prefix/add"])
def test_a_body_in_several_messages_has_a_json_response(path: str) -> None:
    actual = post(path, b'{"numbers"', b": [1, ", b"2]}")
    assert (actual.status, actual.content) == (200, {"sum": 3})
    headers = dict(actual.sent[0]["headers"])
    assert headers[b"content-length"] == b"9" and headers[b"content-type"] == b"application/json"


@pytest.mark.parametrize("count", [2000, 200_000])
def test_the_body_of_a_client_that_has_hung_up_is_not_parsed(count: int) -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * count}  # to parse it is an error

    context = RequestContext("a", has_hung_up=lambda: True)
    with pytest.raises(ClientDisconnected):
        asyncio.run(read_body(Numbers, context, receive))


def test_a_large_body_that_ends_in_small_messages_is_read() -> None:
    drops = [b" "] * 5000
    actual = post(
        "/add", b'{"numbers": [1, 2', b" " * (8 << 20), *drops, b"]}", max_body_bytes=9 << 20
    )
    assert actual.content == {"sum": 3}


@pytest.mark.parametrize(("path", "method"), [("/add", "GET"), ("/no", "POST")])
def test_other_requests_go_to_fastapi(path: str, method: str) -> None:
    assert post(path, b"{}", method=method).status == 202


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b'{"numbers": []}', 400, "no_input"),
        (b'{"numbers": 1}', 400, "invalid_request"),
        (b'{"numbers": [%s]}' % (b"1," * 100), 413, "body_too_large"),
    ],
)
def test_an_invalid_body_has_a_json_error(body: bytes, status: int, code: str) -> None:
    actual = post("/add", body)
    assert (actual.status, actual.content["code"]) == (status, code)


@pytest.mark.parametrize("path", ["/v1/sums", "/prefix/v1/sums"])
@pytest.mark.parametrize("body", [b'{"numbers": []}', b'{"numbers": 1}', b"1" * 101])
def test_errors_have_the_format_of_their_path(path: str, body: bytes) -> None:
    actual = post(path, body)
    assert actual.content["error"]["code"] and actual.status >= 400


def test_unexpected_errors_are_logged_and_hidden_from_clients(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        actual = post("/add", b'{"numbers": [13]}')
    error = actual.content
    assert (actual.status, error["code"]) == (500, "internal_error")
    assert "secret" not in str(error) and "a secret" in caplog.text
    assert error["request_id"] in caplog.text


def test_an_endpoint_without_parameters_is_called_directly() -> None:
    actual = post("/vector", method="GET", app=fastapi())
    assert (actual.status, actual.content) == (200, {"vector": [1.0, 1.0]})
    headers = dict(actual.sent[0]["headers"])
    assert headers[b"content-length"] == b"20" and headers[b"content-type"] == b"application/json"


def test_an_endpoint_without_parameters_may_return_a_response() -> None:
    actual = post("/text", method="GET", app=fastapi())
    assert (actual.status, actual.sent[1]["body"]) == (200, b"text")


def test_the_dependencies_and_the_status_of_an_endpoint_without_parameters_apply() -> None:
    statuses = [post(path, method="GET", app=fastapi()).status for path in ("/refused", "/created")]
    assert statuses == [403, 201]


def test_an_endpoint_with_other_parameters_is_served_as_fastapi_serves_it() -> None:
    actual = post("/scaled", b'{"numbers": [1, 2]}', query=b"factor=3", app=fastapi())
    request_id = dict(actual.sent[0]["headers"])[b"x-request-id"].decode()
    assert (actual.status, actual.content) == (200, {"numbers": [3, 6], "request": request_id})


@pytest.mark.parametrize(
    ("body", "query", "param"),
    [
        (b'{"numbers": [1, "x"]}', b"", "numbers"),
        (b'{"numbers": [], "number": 1}', b"", "number"),
        (b'{"numbers": []}', b"factor=x", "factor"),
        (b'{"numbers": ', b"", None),
    ],
)
def test_fastapis_validation_errors_have_the_same_format(
    body: bytes, query: bytes, param: str | None
) -> None:
    actual = post("/scaled", body, query=query, app=fastapi())
    assert (actual.status, actual.content["param"]) == (400, param)
    assert actual.content["code"] == "unknown_field" if param == "number" else "invalid_request"


def test_the_copies_of_routes_for_head_are_not_documented() -> None:
    routes = api_router("tests")

    @routes.get("/state")
    async def state() -> str:
        return "ready"

    copies = [*routes.routes, *head_routes(routes.routes)]
    fastapis = [each.of_fastapi for each in copies if isinstance(each, DirectRoute)]
    documented = [(each.methods, each.include_in_schema) for each in fastapis]
    assert documented == [({"GET"}, True), ({"HEAD"}, False)]


@pytest.mark.parametrize(
    ("router", "computes"),
    [
        (api_router("tests"), True),
        (api_router("tests", always_computes=False), False),  # some requests compare vectors
        (api_router("tests", (*BODY_ERRORS, 404)), False),
    ],
)
def test_requests_are_refused_unread_only_by_routes_that_always_compute(
    router: APIRouter, computes: bool
) -> None:
    router.post("/add")(add_numbers)
    assert direct_routes(router)["/add"].traits.computes == computes
