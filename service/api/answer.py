"""What FastAPI's endpoints, the ones without a body, share."""

from typing import Any

from fastapi import Request, Response

from service.api.operation import dump
from service.call import Call


def call_of(request: Request) -> Call:
    """The account of this request that its headers and metrics are made of."""
    call: Call = request.state.call
    return call


def answer(content: Any) -> Response:
    """Content as JSON."""
    return Response(dump(content), media_type="application/json")
