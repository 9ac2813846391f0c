"""Responses of FastAPI's own routes that may be large."""

from typing import Any

from fastapi import Response

from service.api.array_format import Raw
from service.api.json_dump import dump_response
from service.request.request_context import RequestContext


async def large_response(context: RequestContext, content: Any) -> Response:
    """Content as JSON, unless it is something else already."""
    if isinstance(content, Raw):
        headers = {name.decode(): value.decode() for name, value in content.head()}
        return Response(content.payload, headers=headers)
    return Response(await dump_response(context, content), media_type="application/json")
