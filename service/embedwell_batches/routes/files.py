"""OpenAI's /v1/files: upload the requests of batches, download their results."""

from collections.abc import AsyncGenerator, Iterable
from itertools import islice
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import FileResponse
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect
from typing_extensions import TypedDict

from embedwell.compute.work_queue import access_files_in_thread
from embedwell.errors import BadRequest, ClientDisconnected, Unsupported
from embedwell.http.error_responses import OPENAI
from embedwell.routes.code_samples import ADDRESS, code_sample
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.openapi_responses import AUTH_ERRORS, BODY_ERRORS, route_responses
from embedwell.routes.common.router import api_router, with_traits
from embedwell_batches.batch import MAX_NAME, Batch
from embedwell_batches.file_store import FileStore, Purpose, StoredFile, Upload
from embedwell_batches.service import BatchService, require_enabled

UPLOAD = "/v1/files"
_MULTIPART = "multipart/form-data"
_ID = Path(description="Id of a file.", examples=["file-000000000000000000000000"])
_PURPOSE = "Only files of requests, or of results. Default: both."
LIMIT = "Maximum number of entries of the page."
AFTER = "Id of the last entry of the page before. Default: the first page."
_FORM = {
    "type": "object",
    "required": ["file", "purpose"],
    "properties": {
        "file": {
            "type": "string",
            "format": "binary",
            "description": "JSON lines, each with a request of the batch.",
        },
        "purpose": {"type": "string", "const": "batch", "description": "Always `batch`."},
    },
}
_MAX_FIELDS, _MAX_FIELD_BYTES = 8, 1 << 10


T = TypeVar("T", bound=StoredFile | Batch)


class Page(TypedDict):
    """Fields of a page of a list, in OpenAI's format.

    - `object`: always `list`.
    """

    object: Literal["list"]
    first_id: str | None
    last_id: str | None
    has_more: bool


@forbid_extra
class Files(Page):
    """Page of a list of files.

    - `first_id`: id of the first file of the page; null if the page is empty.
    - `last_id`: id of the last file of the page, for the query `after`; null if the page is empty.
    - `has_more`: whether another page follows.
    - `data`: the files of the page, newest first.
    """

    data: list[StoredFile]


@forbid_extra
class DeletedFile(TypedDict):
    """A file that was deleted.

    - `id`: id of the file.
    - `object`: always `file`.
    - `deleted`: always true.
    """

    id: str
    object: Literal["file"]
    deleted: Literal[True]


def newest_first_page(items: Iterable[T], limit: int) -> tuple[Page, list[T]]:
    """Return the first page of a list, newest first, and its entries.

    items: read one by one, up to one beyond the page.
    """
    read = [*islice(items, limit + 1)]
    shown = read[:limit]
    first, last = (shown[0].id, shown[-1].id) if shown else (None, None)
    has_more = len(read) > limit
    return {"object": "list", "first_id": first, "last_id": last, "has_more": has_more}, shown


class JsonLinesResponse(FileResponse):
    """A response of JSON lines."""

    media_type = "application/jsonl"


def router(service: BatchService | None) -> APIRouter:
    """Create the routes of /v1/files.

    service: None if the server computes no batches.
    """
    routes = api_router("batches", (), OPENAI)
    responses = route_responses((*AUTH_ERRORS, 404), OPENAI)

    @with_traits(routes, uploads=True).post(
        UPLOAD,
        summary="Upload a file of requests for a batch",
        responses=route_responses((*BODY_ERRORS, 507), OPENAI),
        openapi_extra={
            "requestBody": {"content": {_MULTIPART: {"schema": _FORM}}, "required": True},
            **code_sample(f"curl {ADDRESS}{UPLOAD} -F purpose=batch -F file=@requests.jsonl"),
        },
    )
    async def upload_file(request: Request) -> StoredFile:
        return await _upload(require_enabled(service).files, request)

    @routes.get(
        UPLOAD,
        summary="List all files, newest first",
        responses=route_responses((*AUTH_ERRORS, 400), OPENAI),
    )
    def files(
        purpose: Annotated[Purpose | None, Query(description=_PURPOSE)] = None,
        limit: Annotated[int, Query(ge=1, le=10_000, description=LIMIT)] = 10_000,
        after: Annotated[str, Query(description=AFTER)] = "",
    ) -> Files:
        files = require_enabled(service).files.newest_first(after)
        chosen = (file for file in files if purpose in (None, file.purpose))
        page, data = newest_first_page(chosen, limit)
        return {**page, "data": data}

    @routes.get("/v1/files/{id}", summary="Get the description of a file", responses=responses)
    def file(id: Annotated[str, _ID]) -> StoredFile:
        return require_enabled(service).files.get(id)

    @routes.get(
        "/v1/files/{id}/content",
        summary="Download a file of JSON lines",
        response_class=JsonLinesResponse,
        responses=responses,
    )
    def file_content(id: Annotated[str, _ID]) -> JsonLinesResponse:
        content = require_enabled(service).files.content(id)
        return JsonLinesResponse(content, media_type=JsonLinesResponse.media_type)

    @routes.delete(
        "/v1/files/{id}",
        summary="Delete a file; batches that read it continue",
        responses=responses,
    )
    def delete_file(id: Annotated[str, _ID]) -> DeletedFile:
        require_enabled(service).files.remove(id)
        return {"id": id, "object": "file", "deleted": True}

    return routes


async def _upload(store: FileStore, request: Request) -> StoredFile:
    """Store the file of a form; raises ServiceError."""
    _check_multipart(request.headers.get("content-type", ""))
    receiving = await access_files_in_thread(store.upload)
    try:
        return await _receive(request, receiving)
    except BaseException:
        receiving.discard()
        raise


def _check_multipart(content_type: str) -> None:
    """Raise Unsupported for a type other than a form with parameters."""
    kind, _, parameters = content_type.partition(";")
    if kind.strip().lower() != _MULTIPART or not parameters:
        raise Unsupported(
            f"send the file as {_MULTIPART}, with the fields file and purpose",
            code="unsupported_type",
            header="accept",
            supported=_MULTIPART,
        )


async def _receive(request: Request, receiving: Upload) -> StoredFile:
    form = await _read_form(request, receiving)
    try:
        source = _file_of(form)
        name = source.filename or "requests.jsonl"
        return await access_files_in_thread(receiving.finish, source.file, name)
    finally:
        await form.close()


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


async def _read_form(request: Request, upload: Upload) -> FormData:
    """Read a form with at most one file, which the caller closes.

    upload: reserves disk space for the bytes before they are written.
    Raises BadRequest for a form that cannot be read, and TooLarge if the folder is full.
    """
    try:
        return await _FormParser(request, upload).read()
    except ClientDisconnect:
        raise ClientDisconnected("the client disconnected") from None
    except MultiPartException as error:
        raise _unreadable(error.__cause__ or error.message) from error
    except ValueError as error:  # such as a name that is not text in the form's charset
        raise _unreadable(error) from error


class _FormParser(MultiPartParser):
    """Reads a form; a file of more than 64 KB is not kept in memory."""

    spool_max_size = 1 << 16

    def __init__(self, request: Request, upload: Upload) -> None:
        self._upload, self._complete = upload, False
        super().__init__(
            request.headers,
            self._reserve(request.stream()),
            max_files=1,
            max_fields=_MAX_FIELDS,
            max_part_size=_MAX_FIELD_BYTES,
        )

    def on_end(self) -> None:
        self._complete = True

    async def read(self) -> FormData:
        """Read the form; raises MultiPartException and ValueError."""
        form = await self.parse()
        try:
            for name, value in form.multi_items():
                _check_name(name)
                if isinstance(value, UploadFile):
                    _check_name(value.filename or "")
        except BaseException:
            await form.close()
            raise
        return form

    async def _reserve(self, stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        received = 0
        async for chunk in stream:
            received += len(chunk)
            if received > self._upload.reserved:
                await access_files_in_thread(self._upload.reserve, received)
            yield chunk
        if not self._complete:  # raised here, the parser closes its file
            raise MultiPartException("it ends too early")


def _check_name(name: str) -> None:
    """Raise ValueError for a name that JSON cannot repeat, or that is too long."""
    name.encode()
    if len(name) > MAX_NAME:
        raise ValueError(f"a name has more than {MAX_NAME} characters")


def _unreadable(reason: object) -> BadRequest:
    text = str(reason).rstrip(".")
    return BadRequest(
        f"the form cannot be read: {text}; send multipart/form-data with the fields file and "
        "purpose"
    )
