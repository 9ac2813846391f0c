"""Files and batches that would take a server's memory or disk, or block the batches of others."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.attacks.harness import MB, RETURNED, attack, flood
from tests.service.server import Server

pytestmark = pytest.mark.attack

EMBED = "/v1/embeddings"
ENDED = {"failed", "completed", "expired", "cancelled"}


@pytest.fixture
def victim(minilm_folder: object, tmp_path: Path) -> Iterator[Server]:
    """A server that computes batches, with the other settings' defaults."""
    with Server(tmp_path / "log", batch_folder=tmp_path / "batches") as server:
        yield server
        assert server.process.poll() is None, "the server has ended"
        assert "Traceback" not in server.log


def line(body: Any, custom_id: str = "a", url: str = EMBED) -> bytes:
    fields = {"custom_id": custom_id, "method": "POST", "url": url, "body": body}
    return json.dumps(fields).encode() + b"\n"


GOOD = line({"input": "some words"})


def upload(server: Server, content: bytes) -> str:
    response = server.client.post(
        "/v1/files", files={"file": ("a.jsonl", content)}, data={"purpose": "batch"}
    )
    assert response.status_code == 200, response.text
    return str(response.json()["id"])


def create(server: Server, content: bytes, endpoint: str = EMBED, **fields: Any) -> httpx.Response:
    file = upload(server, content)
    return server.post("/v1/batches", {"input_file_id": file, "endpoint": endpoint, **fields})


def finished(server: Server, id: str) -> Any:
    """A batch once it has ended."""

    def ended() -> bool:
        batch.update(server.client.get(f"/v1/batches/{id}").json())
        return batch["status"] in ENDED

    batch: dict[str, Any] = {}
    server.wait_until(ended, 300)
    return batch


DEEP = b'{"custom_id": "b", "method": "POST", "url": "%s", "body": {"input": %s}}\n' % (
    EMBED.encode(),
    b"[" * 300 + b"]" * 300,
)
BLOCKING_FILES = {
    "a body 300 deep": DEEP,
    "a blank line of 8.4 MB, and a line without a body": GOOD
    + b" " * (8 * MB + 1000)
    + b'\n{"custom_id": "b"}\n',
    "a blank line of 100 MB": GOOD + b" " * (100 * MB) + b"\n",
    "60 million empty lines": b"\n" * 60_000_000 + GOOD,
}


@pytest.mark.parametrize("name", BLOCKING_FILES)
def test_a_bad_file_fails_its_batch_and_no_other(victim: Server, name: str) -> None:
    with attack(name, victim) as report:
        bad = create(victim, BLOCKING_FILES[name]).json()["id"]
        good = create(victim, GOOD).json()["id"]
        assert finished(victim, good)["status"] == "completed"
        batch = finished(victim, bad)
    assert batch["status"] == "failed" and batch["errors"]["data"]
    report.check(growth=150)


def test_large_responses_are_computed_and_written_one_at_a_time(victim: Server) -> None:
    body = {"scheme": "sinusoidal", "count": 10400, "dim": 384}
    content = b"".join(line(body, str(number), "/positions") for number in range(15))
    with attack("a batch of 15 x /positions of 44 MB", victim) as report:
        batch = finished(victim, create(victim, content, "/positions").json()["id"])
    assert batch["request_counts"] == {"total": 15, "completed": 15, "failed": 0}
    report.check(growth=400)
    assert report.after - report.before < RETURNED, "memory was not returned"


def test_metadata_and_pages_take_little_memory(victim: Server) -> None:
    metadata = {f"{number}" + "k" * 500_000: "v" for number in range(15)}
    file = upload(victim, GOOD)
    fields = {"input_file_id": file, "endpoint": EMBED, "metadata": metadata}
    with attack("60 batches with 7.5 MB of metadata, and a list of one", victim) as report:
        statuses = {victim.post("/v1/batches", fields).status_code for _ in range(60)}
        page = victim.client.get("/v1/batches", params={"limit": 1})
    assert statuses == {400} and page.json()["data"] == []
    report.check(growth=150)


def test_problems_of_long_ids_take_little_memory(victim: Server) -> None:
    content = line({"input": "a"}, "x" * 7_900_000) * 13
    with attack("13 lines with one custom_id of 7.9 MB", victim) as report:
        batch = finished(victim, create(victim, content).json()["id"])
        page = victim.client.get("/v1/batches")
    assert batch["status"] == "failed" and len(page.content) < 100_000
    report.check(growth=150)


def on_disk(folder: Path) -> float:
    """MB of the files in a folder; those of several hard links count once."""
    found = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return sum({status.st_ino: status.st_size for status in found}.values()) / MB


def test_files_take_no_more_disk_than_the_limit(minilm_folder: object, tmp_path: Path) -> None:
    folder = tmp_path / "batches"
    content = b"".join(line({"input": "word " * 2000}, str(number)) for number in range(1000))
    statuses: list[int] = []

    def attempt(server: Server) -> None:
        form = {"file": ("a.jsonl", content)}
        response = httpx.post(
            f"{server.url}/v1/files", files=form, data={"purpose": "batch"}, timeout=120
        )
        statuses.append(response.status_code)
        if response.status_code == 200:  # the batch keeps the file, which clients no longer see
            fields = {"input_file_id": response.json()["id"], "endpoint": EMBED}
            server.post("/v1/batches", fields)
            server.client.delete(f"/v1/files/{response.json()['id']}")

    with (
        Server(tmp_path / "log", batch_folder=folder, batch_max_bytes=45 * MB) as server,
        attack("32 files of 10 MB, 8 at a time, that batches keep", server) as report,
        ThreadPoolExecutor(8) as pool,
    ):
        for _ in range(32):
            pool.submit(attempt, server)
        pool.shutdown()
        largest = on_disk(folder)
    assert largest <= 45, f"{largest:.0f} MB"
    assert {*statuses} == {200, 413}
    report.check(growth=150)


def test_forms_with_long_fields_take_little_memory(victim: Server) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="%d"\r\n\r\n%s\r\n'
    form = b"".join(part % (number, b"a" * (MB - 1000)) for number in range(8))
    head = b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n" % (9 * MB)
    head += b"content-type: multipart/form-data; boundary=x\r\n\r\n"
    with attack("100 forms with 8 fields of 1 MB that lack an end", victim) as report:
        flood(victim.url, 100, head + form, seconds=10)
    report.check(growth=150)
