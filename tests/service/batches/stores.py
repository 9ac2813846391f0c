"""Folders of files and batches."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embedwell_batches.batch import BatchLimits
from embedwell_batches.batch_store import BatchStore
from embedwell_batches.batch_work import BatchWork
from embedwell_batches.file_store import FileStore
from embedwell_batches.folder import DiskSpace
from embedwell_batches.json_lines import RequestLine
from embedwell_batches.route_calls import RouteResponse

ENDPOINT = "/v1/embeddings"
WINDOW = "24h", 86400
BLOCK = 4096  # bytes; the least that a file takes


def limits(**changed: Any) -> BatchLimits:
    options = {"file_bytes": 1 << 20, "folder_bytes": 1 << 20, "line_bytes": 1000, "retention": 60}
    return BatchLimits(**{**options, **changed})


class Stores:
    """The stores of a folder, opened anew as by a process that starts."""

    def __init__(self, folder: Path, **changed: Any) -> None:
        self.limits = limits(**changed)
        self.space = DiskSpace(folder, self.limits.folder_bytes)
        self.files = FileStore(folder / "files", self.limits, self.space)
        self.batches = BatchStore(folder / "batches", self.files, self.limits)

    def add(self, content: bytes, filename: str = "requests.jsonl") -> str:
        upload = self.files.upload()
        try:
            return upload.finish(io.BytesIO(content), filename).id
        except BaseException:
            upload.discard()
            raise

    def create(self, count: int = 3, seconds: int = 86400) -> str:
        """A batch of requests named 0, 1, ...; returns its name."""
        file = self.add(requests(count))
        return self.batches.create(file, ENDPOINT, ("24h", seconds), None).id

    def work(self, id: str) -> BatchWork:
        return BatchWork(self.batches.load_stored(id), self.batches, self.files, self.limits)

    def lines(self, id: str | None) -> list[Any]:
        """The lines of a file of results; none without a file."""
        if id is None:
            return []
        return [json.loads(line) for line in self.files.content(id).read_bytes().splitlines()]


def requests(count: int, endpoint: str = ENDPOINT) -> bytes:
    """Lines of a file of requests, with the custom ids 0, 1, ..."""
    lines = [
        {
            "custom_id": str(number),
            "method": "POST",
            "url": endpoint,
            "body": {"input": f"the work {number}"},
        }
        for number in range(count)
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def responses(
    window: Sequence[RequestLine], failing: Sequence[str] = ()
) -> list[tuple[RequestLine, RouteResponse]]:
    """A response for each request: its body, or an error for those of these names."""
    return [
        (
            line,
            RouteResponse(f"id of {line.custom_id}", 400 if bad else 200, line.body),
        )
        for line in window
        for bad in [line.custom_id in failing]
    ]
