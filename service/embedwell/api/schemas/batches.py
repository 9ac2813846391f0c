"""Schemas of the routes of batches and files, except StoredFile and Batch."""

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
    """Page of a list of files.

    - `first_id`, `last_id`: first and last file of the page; null if the page is empty.
    - `has_more`: whether another page follows.
    """

    data: list[StoredFile]


@forbid_extra
class Batches(_Page):
    """Page of a list of batches.

    - `first_id`, `last_id`: first and last batch of the page; null if the page is empty.
    - `has_more`: whether another page follows.
    """

    data: list[Batch]


@forbid_extra
class DeletedFile(TypedDict):
    id: str
    object: Literal["file"]
    deleted: Literal[True]
