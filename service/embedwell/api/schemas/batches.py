"""Schemas of the responses of the routes of batches, beside StoredFile and Batch."""

from typing import Literal

from typing_extensions import TypedDict

from embedwell.api.schemas.common import forbid_extra
from embedwell.batches.batch import Batch
from embedwell.batches.file_store import StoredFile


class _Page(TypedDict):
    object: Literal["list"]
    first_id: str | None
    last_id: str | None
    has_more: bool


@forbid_extra
class Files(_Page):
    """first_id, last_id: of this page; null if it is empty. has_more: whether another follows."""

    data: list[StoredFile]


@forbid_extra
class Batches(_Page):
    """first_id, last_id: of this page; null if it is empty. has_more: whether another follows."""

    data: list[Batch]


@forbid_extra
class DeletedFile(TypedDict):
    id: str
    object: Literal["file"]
    deleted: Literal[True]
