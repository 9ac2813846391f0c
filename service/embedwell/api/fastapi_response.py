"""Responses of routes that FastAPI calls itself."""

from typing import Any

from fastapi import Response

from embedwell.api.binary_response import BinaryResponse
from embedwell.api.json_dump import dump_response
from embedwell.request.request_context import RequestContext


async def fastapi_response(context: RequestContext, content: Any) -> Response:
    """Build FastAPI's response from an endpoint's result: JSON, or bytes for a BinaryResponse."""
    if isinstance(content, BinaryResponse):
        headers = {name.decode(): value.decode() for name, value in content.headers()}
        return Response(content.body, headers=headers)
    return Response(await dump_response(context, content), media_type="application/json")
