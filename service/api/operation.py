"""POST endpoints: JSON in, JSON out, as plain ASGI beneath FastAPI, which took longer than they."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from service.api.body import Body
from service.api.json_dump import LARGE, dump, dump_response
from service.api.output import Raw
from service.api.responses import REFERENCE, Responses
from service.request.json_limits import check_parts
from service.request.request_context import RequestContext
from service.request.run_in_thread import run_in_thread

B = TypeVar("B", bound=Body)

_SMALL = 1 << 16  # bytes of a body, which are read in a few milliseconds, whatever they say
_JSON = (b"content-type", b"application/json")
_BODY = (
    "JSON in UTF-8. It is also read as application/…+json, text/plain, "
    "application/x-www-form-urlencoded and without a type."
)
_ENCODING = {
    "name": "content-encoding",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "enum": ["gzip", "deflate", "identity"]},
}


@dataclass(frozen=True)
class Operation(Generic[B]):
    """One POST endpoint: the model of its body, and what turns a body into content for JSON.

    responses: what it can answer, for the documentation. aliases: other paths of it, which are not
    in that.
    """

    path: str
    body: type[B]
    work: Callable[[RequestContext, B], Coroutine[Any, Any, Any]]
    summary: str
    tag: str
    responses: Responses
    aliases: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        return self.path, *self.aliases

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises ValidationError for a wrong body, and ServiceError."""
        context: RequestContext = scope["state"]["context"]
        content = await self.work(context, await read_body(self.body, context, receive))
        if isinstance(content, Raw):
            payload, headers = content.payload, content.head()
        else:
            large = context.memory.size > LARGE
            payload = await dump_response(context, content) if large else dump(content)
            headers = [_JSON, (b"content-length", b"%d" % len(payload))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": payload})

    def routes(self) -> list[Route]:
        """What tells a router of it."""
        return [Route(path, self, methods=["POST"], include_in_schema=False) for path in self.paths]

    def describe(self) -> dict[str, Any]:
        """Its part of the OpenAPI document."""
        schema = self.body.model_json_schema(ref_template=REFERENCE)
        return {
            "tags": [self.tag],
            "summary": self.summary,
            "operationId": self.work.__name__,
            "parameters": [_ENCODING],
            "requestBody": {
                "required": True,
                "description": _BODY,
                "content": {"application/json": {"schema": schema}},
            },
            **self.responses.describe(),
        }


async def read_body(model: type[B], context: RequestContext, receive: Receive) -> B:
    """The body of a request; raises ValidationError for a wrong one, and ServiceError."""
    text = await _read(receive)
    context.size = len(text)
    if context.size <= _SMALL:
        return _parse(model, text)
    return await run_in_thread(partial(_parse, model, text), small=False)


def _parse(model: type[B], text: bytes) -> B:
    check_parts(text)
    return model.model_validate_json(text)


async def _read(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    return await _rest(body, receive) if message.get("more_body", False) else body


async def _rest(begun: bytes, receive: Receive) -> bytes:
    body, more = bytearray(begun), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)
