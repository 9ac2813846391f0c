"""OpenAI's /v1/files: upload the requests of batches, download their results."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import FileResponse
from starlette.datastructures import FormData, UploadFile

from embedwell.api.listing import newest_first_page
from embedwell.api.openapi_responses import AUTH_ERRORS, BODY_ERRORS, route_responses
from embedwell.api.router import api_router
from embedwell.api.schemas.batches import DeletedFile, Files
from embedwell.api.schemas.common import OpenAIError
from embedwell.batches.file_store import Purpose, StoredFile
from embedwell.batches.service import BatchService, require_enabled
from embedwell.errors import BadRequest, Unsupported

UPLOAD = "/v1/files"
MULTIPART = "multipart/form-data"

_ID = Path(examples=["file-000000000000000000000000"])
_FORM = {
    "type": "object",
    "required": ["file", "purpose"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "purpose": {"type": "string", "const": "batch"},
    },
}


class JsonLinesResponse(FileResponse):
    """A response of JSON lines."""

    media_type = "application/jsonl"


def router(service: BatchService | None) -> APIRouter:
    """Create the routes of this module.

    service: None if the server computes no batches.
    """
    routes = api_router("batches")
    responses = route_responses((*AUTH_ERRORS, 404), OpenAIError)

    @routes.post(
        UPLOAD,
        summary="Upload a file of requests for a batch",
        response_model=StoredFile,
        responses=route_responses(BODY_ERRORS, OpenAIError),
        openapi_extra={
            "requestBody": {"content": {MULTIPART: {"schema": _FORM}}, "required": True}
        },
        name="upload_file",
    )
    async def upload(request: Request) -> Any:
        store = require_enabled(service).files
        if not request.headers.get("content-type", "").startswith(f"{MULTIPART};"):
            raise Unsupported(
                f"send the file as {MULTIPART}, with the fields file and purpose",
                code="unsupported_type",
                header="accept",
                supported=MULTIPART,
            )
        async with request.form(max_files=1, max_fields=8) as form:
            source = _file_of(form)
            name = source.filename or "requests.jsonl"
            return await asyncio.to_thread(store.add, source.file, name)

    @routes.get(
        UPLOAD,
        summary="List all files, newest first",
        response_model=Files,
        responses=route_responses((*AUTH_ERRORS, 400), OpenAIError),
        name="files",
    )
    def list_files(
        purpose: Purpose | None = None,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
        after: str = "",
    ) -> Any:
        kept = require_enabled(service).files.all()
        return newest_first_page(
            [file for file in kept if purpose in (None, file.purpose)], limit, after
        )

    @routes.get(
        "/v1/files/{id}",
        summary="Get the description of a file",
        response_model=StoredFile,
        responses=responses,
        name="file",
    )
    def get_file(id: Annotated[str, _ID]) -> Any:
        return require_enabled(service).files.get(id).model_dump()

    @routes.get(
        "/v1/files/{id}/content",
        summary="Download a file of JSON lines",
        response_class=JsonLinesResponse,
        responses=responses,
        name="file_content",
    )
    def get_content(id: Annotated[str, _ID]) -> JsonLinesResponse:
        return JsonLinesResponse(
            require_enabled(service).files.content(id), media_type=JsonLinesResponse.media_type
        )

    @routes.delete(
        "/v1/files/{id}",
        summary="Delete a file; batches that read it continue",
        response_model=DeletedFile,
        responses=responses,
        name="delete_file",
    )
    def delete_file(id: Annotated[str, _ID]) -> Any:
        require_enabled(service).files.remove(id)
        return {"id": id, "object": "file", "deleted": True}

    return routes


def _file_of(form: FormData) -> UploadFile:
    """Return the file of a form; raises BadRequest unless it is for a batch."""
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise BadRequest("the form has no file; add it as the field file", param="file")
    if form.get("purpose") != "batch":
        raise BadRequest('the field purpose must be "batch"', param="purpose")
    for name in sorted({*form} - {"file", "purpose"}):
        raise BadRequest(
            f"unknown field {name!r}; the form has the fields file and purpose",
            code="unknown_field",
            param=name,
        )
    return file
