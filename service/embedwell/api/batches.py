"""OpenAI's /v1/batches: jobs that compute the requests of a file while the engine is idle."""

import re
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field

from embedwell.api.body import Body, examples
from embedwell.api.listing import newest_first_page
from embedwell.api.openapi_responses import AUTH_ERRORS, BODY_ERRORS, route_responses
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.batches import Batches
from embedwell.api.schemas.common import OpenAIError
from embedwell.batches.batch import Batch
from embedwell.batches.service import BatchService, require_enabled
from embedwell.errors import BadRequest

_WINDOW = re.compile(r"([1-9]\d{0,2})([hd])")
_SECONDS = {"h": 3600, "d": 86400}
_ID = Path(examples=["batch_000000000000000000000000"])


class BatchRequest(Body):
    """Request body that creates a batch.

    - `completion_window`: 24h, or another number of hours (h) or days (d). Requests that are not
      computed by then expire.
    - `metadata`: values of the client, which responses repeat.
    """

    model_config = examples(
        {
            "input_file_id": "file-000000000000000000000000",
            "endpoint": "/v1/embeddings",
            "completion_window": "24h",
        }
    )

    input_file_id: str
    endpoint: str
    completion_window: str = "24h"
    metadata: Annotated[dict[str, Annotated[str, Field(max_length=512)]], Field(max_length=16)] | (
        None
    ) = None


def router(service: BatchService | None) -> APIRouter:
    """Create the routes of this module.

    service: None if the server computes no batches.
    """
    routes = api_router("batches")
    responses = route_responses((*AUTH_ERRORS, 404), OpenAIError)

    @routes.post(
        "/v1/batches",
        summary="Create a batch from an uploaded file",
        response_model=Batch,
        responses=route_responses((*BODY_ERRORS, 404), OpenAIError),
        name="create_batch",
    )
    async def create(context: Context, body: BatchRequest) -> Any:
        enabled_service = require_enabled(service)
        if body.endpoint not in enabled_service.endpoints:
            known = ", ".join(sorted(enabled_service.endpoints))
            raise BadRequest(f"endpoint must be one of {known}", param="endpoint")
        window = body.completion_window, _seconds(body.completion_window)
        store = enabled_service.batches
        return store.create(body.input_file_id, body.endpoint, window, body.metadata).model_dump()

    @routes.get(
        "/v1/batches",
        summary="List all batches, newest first",
        response_model=Batches,
        responses=route_responses((*AUTH_ERRORS, 400), OpenAIError),
        name="batches",
    )
    def list_batches(limit: Annotated[int, Query(ge=1, le=100)] = 20, after: str = "") -> Any:
        return newest_first_page(require_enabled(service).batches.all(), limit, after)

    @routes.get(
        "/v1/batches/{id}",
        summary="Get a batch and its progress",
        response_model=Batch,
        responses=responses,
        name="batch",
    )
    def get_batch(id: Annotated[str, _ID]) -> Any:
        return require_enabled(service).batches.get(id).model_dump()

    @routes.post(
        "/v1/batches/{id}/cancel",
        summary="Cancel a batch; finished results are kept",
        response_model=Batch,
        responses=responses,
        name="cancel_batch",
    )
    def cancel(id: Annotated[str, _ID]) -> Any:
        return require_enabled(service).batches.cancel(id).model_dump()

    return routes


def _seconds(window: str) -> int:
    match = _WINDOW.fullmatch(window)
    if match is None:
        message = (
            "completion_window must be a number of hours or days, such as 24h or 7d, not "
            f"{window!r}"
        )
        raise BadRequest(message, param="completion_window")
    return int(match[1]) * _SECONDS[match[2]]
