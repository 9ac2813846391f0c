"""What FastAPI's endpoints, the ones without a body, share."""

from typing import Any

from fastapi import Request, Response

from service.api.json_dump import dump, dump_response
from service.api.output import Raw
from service.request.request_context import Call


def call_of(request: Request) -> Call:
    """The account of this request that its headers and metrics are made of."""
    call: Call = request.state.call
    return call


def answer(content: Any) -> Response:
    """Content as JSON."""
    return Response(dump(content), media_type="application/json")


async def large_answer(call: Call, content: Any) -> Response:
    """The same of content that may be large, unless it is something else already."""
    if isinstance(content, Raw):
        headers = {name.decode(): value.decode() for name, value in content.head()}
        return Response(content.payload, headers=headers)
    return Response(await dump_response(call, content), media_type="application/json")
