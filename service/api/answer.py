"""What FastAPI's endpoints, the ones without a body, share."""

from typing import Any

from fastapi import Request, Response

from service.api.json_dump import dump, dump_response
from service.api.output import Raw
from service.request.request_context import RequestContext


def context_of(request: Request) -> RequestContext:
    """The account of this request that its headers and metrics are made of."""
    context: RequestContext = request.state.context
    return context


def answer(content: Any) -> Response:
    """Content as JSON."""
    return Response(dump(content), media_type="application/json")


async def large_answer(context: RequestContext, content: Any) -> Response:
    """The same of content that may be large, unless it is something else already."""
    if isinstance(content, Raw):
        headers = {name.decode(): value.decode() for name, value in content.head()}
        return Response(content.payload, headers=headers)
    return Response(await dump_response(context, content), media_type="application/json")
