"""OpenAI's /v1/batches: jobs that compute the requests of a file while the engine is idle."""

import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from embedwell.compute.work_queue import access_files_in_thread
from embedwell.errors import BadRequest
from embedwell.http.error_responses import OPENAI
from embedwell.routes.common.body import Body, examples
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.openapi_responses import AUTH_ERRORS, BODY_ERRORS, route_responses
from embedwell.routes.common.router import RequestDep, api_router
from embedwell_batches.batch import Batch
from embedwell_batches.routes.files import AFTER, LIMIT, Page, newest_first_page
from embedwell_batches.service import BatchService, require_enabled

_WINDOW = re.compile(r"([1-9]\d{0,2})([hd])")
_SECONDS = {"h": 3600, "d": 86400}
_ID = Path(description="Id of a batch.", examples=["batch_000000000000000000000000"])
_Name = Annotated[str, Field(max_length=64)]
_Value = Annotated[str, Field(max_length=512)]


class OutputExpiry(Body):
    """Time after which the files of results are deleted, in seconds from their creation.

    - `anchor`: time from which `seconds` count: always the creation of the file.
    - `seconds`: from 3600 (an hour) to 2592000 (30 days).
    """

    anchor: Literal["created_at"]
    seconds: Annotated[int, Field(ge=3600, le=2_592_000)]


class BatchRequest(Body):
    """Request body that creates a batch.

    - `completion_window`: 24h, or another number of hours (h) or days (d). Requests that are not
      computed by then expire.
    - `output_expires_after`: deletes the files of results earlier than the server's setting does.
      Default: as the setting does.
    - `metadata`: up to 16 values of the client, which responses repeat. A name has at most 64
      characters, and a value 512.
    - `input_file_id`: id of an uploaded file, with one request in each line.
    - `endpoint`: route that computes each request of the file, such as `/v1/embeddings`.
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
    output_expires_after: OutputExpiry | None = None
    metadata: Annotated[dict[_Name, _Value], Field(max_length=16)] | None = None


@forbid_extra
class Batches(Page):
    """Page of a list of batches.

    - `first_id`: id of the first batch of the page; null if the page is empty.
    - `last_id`: id of the last batch of the page, for the query `after`; null if the page is empty.
    - `has_more`: whether another page follows.
    - `object`: always `list`.
    - `data`: the batches of the page, newest first.
    """

    data: list[Batch]


def router(service: BatchService | None) -> APIRouter:
    """Create the routes of /v1/batches.

    service: None if the server computes no batches.
    """
    routes = api_router("batches", (), OPENAI)
    responses = route_responses((*AUTH_ERRORS, 404), OPENAI)

    @routes.post(
        "/v1/batches",
        summary="Create a batch from an uploaded file",
        response_model=Batch,
        responses=route_responses((*BODY_ERRORS, 404, 507), OPENAI),
    )
    async def create_batch(context: RequestDep, body: BatchRequest) -> dict[str, Any]:
        return (await _create(require_enabled(service), body)).model_dump()

    @routes.get(
        "/v1/batches",
        summary="List all batches, newest first",
        responses=route_responses((*AUTH_ERRORS, 400), OPENAI),
    )
    def batches(
        limit: Annotated[int, Query(ge=1, le=100, description=LIMIT)] = 20,
        after: Annotated[str, Query(description=AFTER)] = "",
    ) -> Batches:
        batches = require_enabled(service).batches.newest_first(after)
        page, data = newest_first_page(batches, limit)
        return {**page, "data": data}

    @routes.get("/v1/batches/{id}", summary="Get a batch and its progress", responses=responses)
    def batch(id: Annotated[str, _ID]) -> Batch:
        return require_enabled(service).batches.get(id)

    @routes.post(
        "/v1/batches/{id}/cancel",
        summary="Cancel a batch; finished results are kept",
        responses=route_responses((*AUTH_ERRORS, 404, 507), OPENAI),
    )
    def cancel_batch(id: Annotated[str, _ID]) -> Batch:
        return require_enabled(service).batches.cancel(id)

    return routes


async def _create(service: BatchService, body: BatchRequest) -> Batch:
    """Create a batch; raises ServiceError."""
    if body.endpoint not in service.endpoints:
        known = ", ".join(sorted(service.endpoints))
        raise BadRequest(f"endpoint must be one of {known}", param="endpoint")
    window = body.completion_window, _seconds(body.completion_window)
    expiry = body.output_expires_after
    return await access_files_in_thread(
        service.batches.create,
        *(body.input_file_id, body.endpoint, window, body.metadata),
        None if expiry is None else expiry.seconds,
    )


def _seconds(window: str) -> int:
    match = _WINDOW.fullmatch(window)
    if match is None:
        message = (
            "completion_window must be a number of hours or days, such as 24h or 7d, not "
            f"{window!r}"
        )
        raise BadRequest(message, param="completion_window")
    return int(match[1]) * _SECONDS[match[2]]
