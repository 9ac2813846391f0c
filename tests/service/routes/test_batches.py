"""Files of requests are computed as the same requests are over HTTP."""

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from embedwell.launch.supervised import HTTP_PROCESS
from tests.models.tiny import write_static_model
from tests.service.batches.stores import requests
from tests.service.local_server import local_server
from tests.service.routes.committed import check, run_example
from tests.service.server import HttpServer, Server, error_of

OPTIONS: dict[str, Any] = {"max_texts": 4, "batch_max_file_bytes": 10_000}


@pytest.fixture(scope="module")
def batch_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server that computes batches."""
    folder = tmp_path_factory.mktemp("batches")
    model = write_static_model(tmp_path_factory.mktemp("model"))
    with local_server(model, batch_folder=folder / "new", **OPTIONS) as server:
        server.client.event_hooks["response"] = [check_documented]
        yield server


def check_documented(response: httpx.Response) -> None:
    """Check a response of a route of batches against the OpenAPI document."""
    if "/v1/" in response.url.path:
        response.read()
        path = re.sub("(file-|batch_)[^/]+", "{id}", response.url.path)
        check(response, response.request.method.lower(), path)


def upload(server: HttpServer, content: bytes, **fields: str) -> httpx.Response:
    form = {"purpose": "batch", **fields}
    return server.client.post("/v1/files", files={"file": ("a.jsonl", content)}, data=form)


def create(server: HttpServer, content: bytes, **fields: Any) -> httpx.Response:
    file = upload(server, content).json()["id"]
    body = {"input_file_id": file, "endpoint": "/v1/embeddings", "completion_window": "24h"}
    return server.post("/v1/batches", {**body, **fields})


def finished(server: HttpServer, id: str) -> Any:
    """A batch once it has ended."""
    deadline = time.monotonic() + 120
    while True:
        batch = server.client.get(f"/v1/batches/{id}").json()
        if batch["status"] in {"failed", "completed", "expired", "cancelled"}:
            return batch
        assert time.monotonic() < deadline, batch
        time.sleep(0.02)


def results(server: HttpServer, file: str) -> list[Any]:
    content = server.client.get(f"/v1/files/{file}/content")
    assert content.headers["content-type"] == "application/jsonl"
    return [json.loads(line) for line in content.text.splitlines()]


@pytest.mark.parametrize(
    ("endpoint", "body", "bad"),
    [
        ("/v1/embeddings", {"input": "the work"}, {"input": ["a"] * 5}),
        ("/similarity", {"a": ["the work"], "b": ["a license"]}, {"a": [], "b": ["x"]}),
    ],
)
def test_each_response_is_that_of_the_route(
    batch_server: HttpServer, endpoint: str, body: Any, bad: Any
) -> None:
    lines = [
        {"custom_id": f"request {i}", "method": "POST", "url": endpoint, "body": part}
        for i, part in enumerate([body, bad, {"unknown": 1}])
    ]
    content = b"\n".join(json.dumps(line).encode() for line in lines)
    id = create(batch_server, content, endpoint=endpoint).json()["id"]
    batch = finished(batch_server, id)
    assert batch["status"] == "completed"
    assert batch["request_counts"] == {"total": 3, "completed": 1, "failed": 2}
    expected = [batch_server.post(endpoint, line["body"]) for line in lines]
    output = results(batch_server, batch["output_file_id"])
    errors = results(batch_server, batch["error_file_id"])
    assert [line["custom_id"] for line in [*output, *errors]] == [f"request {i}" for i in range(3)]
    for line, response in zip([*output, *errors], expected, strict=True):
        assert line["response"]["status_code"] == response.status_code
        assert known(line["response"]["body"]) == known(response.json())


def known(body: Any) -> Any:
    """A body without what differs from one request to the next."""
    if isinstance(body, dict):
        changing = {"id", "created", "timing", "request_id"}
        return {k: known(v) for k, v in body.items() if k not in changing}
    return body


def test_the_documented_examples_run(batch_server: HttpServer, tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_bytes(requests(1))
    run_example("post", "/v1/files", batch_server.url, tmp_path)
    file = {"file-000000000000000000000000": response_of(tmp_path)["id"]}
    run_example("post", "/v1/batches", batch_server.url, tmp_path, file)
    batch = {"batch_000000000000000000000000": response_of(tmp_path)["id"]}
    for path in ("/v1/files", "/v1/batches"):
        run_example("get", path, batch_server.url, tmp_path)
    for path in ("/v1/files/{id}", "/v1/files/{id}/content"):
        run_example("get", path, batch_server.url, tmp_path, file)
    run_example("get", "/v1/batches/{id}", batch_server.url, tmp_path, batch)
    run_example("post", "/v1/batches/{id}/cancel", batch_server.url, tmp_path, batch)
    run_example("delete", "/v1/files/{id}", batch_server.url, tmp_path, file)


def response_of(folder: Path) -> Any:
    """The response that an example has written."""
    return json.loads((folder / "response").read_text())


def test_a_file_with_problems_fails_and_lists_them(batch_server: HttpServer) -> None:
    id = create(batch_server, requests(1) + b"no JSON\n").json()["id"]
    batch = finished(batch_server, id)
    assert (batch["status"], batch["output_file_id"]) == ("failed", None)
    [problem] = batch["errors"]["data"]
    assert (problem["code"], problem["line"]) == ("invalid_json_line", 2)


def test_files_and_batches_are_listed_page_by_page(batch_server: HttpServer) -> None:
    ids = [create(batch_server, requests(1)).json()["id"] for _ in range(3)]
    first = batch_server.client.get("/v1/batches", params={"limit": 2}).json()
    assert [batch["id"] for batch in first["data"]] == ids[:0:-1]
    assert first["has_more"] and (first["first_id"], first["last_id"]) == (ids[2], ids[1])
    after = {"limit": 100, "after": first["last_id"]}
    rest = batch_server.client.get("/v1/batches", params=after).json()
    assert rest["data"][0]["id"] == ids[0] and not rest["has_more"]
    files = batch_server.client.get("/v1/files", params={"purpose": "batch", "limit": 3}).json()
    inputs = [batch["input_file_id"] for batch in [*first["data"], rest["data"][0]]]
    assert [file["id"] for file in files["data"]] == inputs
    assert {file["filename"] for file in files["data"]} == {"a.jsonl"}


def test_a_file_is_read_described_and_deleted(batch_server: HttpServer) -> None:
    file = upload(batch_server, b"some lines").json()
    path = f"/v1/files/{file['id']}"
    assert batch_server.client.get(path).json() == file
    assert batch_server.client.get(f"{path}/content").content == b"some lines"
    deleted = {"id": file["id"], "object": "file", "deleted": True}
    assert batch_server.client.delete(path).json() == deleted
    for response in (batch_server.client.get(path), batch_server.client.get(f"{path}/content")):
        assert (response.status_code, error_of(response)["code"]) == (404, "file_not_found")


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"endpoint": "/v1/chat"}, 400, "endpoint must be one of /, /analogy, /api/embed"),
        ({"endpoint": "/v1/batches"}, 400, "endpoint must be one of "),
        ({"completion_window": "soon"}, 400, "hours or days, such as 24h or 7d, not 'soon'"),
        ({"input_file_id": "file-1"}, 404, "there is no file 'file-1'"),
        ({"priority": 1}, 400, "unknown field 'priority'"),
        ({"metadata": {"a": "x" * 513}}, 400, "metadata.a: String should have at most 512"),
        ({"metadata": {"k" * 65: "x"}}, 400, "String should have at most 64 characters"),
        ({"metadata": {str(i): "x" for i in range(17)}}, 400, "at most 16 items"),
    ],
)
def test_a_batch_that_cannot_be_is_refused(
    batch_server: HttpServer, fields: dict[str, Any], status: int, message: str
) -> None:
    response = create(batch_server, requests(1), **fields)
    assert response.status_code == status
    assert message in error_of(response)["message"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"purpose": "fine-tune"}, 'the field purpose must be "batch"'),
        (
            {"expires_after[seconds]": "60"},
            "unknown field 'expires_after[seconds]'; the form has the fields ",
        ),
    ],
)
def test_an_upload_for_something_else_is_refused(
    batch_server: HttpServer, fields: dict[str, str], message: str
) -> None:
    response = upload(batch_server, requests(1), **fields)
    assert response.status_code == 400
    assert error_of(response)["message"].startswith(message)


def test_an_upload_without_a_file_or_a_form_is_refused(batch_server: HttpServer) -> None:
    form = batch_server.client.post("/v1/files", files={"purpose": (None, "batch")})
    assert form.status_code == 400
    assert error_of(form)["message"] == "the form has no file; add it as the field file"
    for headers in ({}, {"content-type": "multipart/form-data"}):
        body = batch_server.client.post("/v1/files", content=b"{}", headers=headers)
        assert (body.status_code, body.headers["accept"]) == (415, "multipart/form-data")
        assert "send the file as multipart/form-data" in error_of(body)["message"]


PURPOSE = b'--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\nabc\r\n'
BAD_FORMS = {
    "not a form": (b"{}", "Expected boundary character"),
    "empty": (b"", "it ends too early"),
    "cut off": (PURPOSE + FILE % b"a", "it ends too early"),
    "cut off in a header": (PURPOSE + FILE[:20], "it ends too early"),
    "a part without a name": (b"--x\r\n\r\nabc\r\n--x--\r\n", '"name" must be provided'),
    "a bad header": (b"--x\r\nA B\r\n\r\nabc\r\n--x--\r\n", "Found invalid character 32 in header"),
    "a long header": (b"--x\r\nA: " + b"a" * 5000 + b"\r\n\r\n--x--\r\n", "header"),
    "two files": (PURPOSE + FILE % b"a" + FILE % b"b" + b"--x--\r\n", "Too many files"),
    "many fields": (PURPOSE * 9 + b"--x--\r\n", "Too many fields"),
    "a long field": (PURPOSE.replace(b"batch", b"b" * 2000) + b"--x--\r\n", "maximum size of 1KB"),
    "a long file name": (PURPOSE + FILE % (b"a" * 513) + b"--x--\r\n", "more than 512 characters"),
}
BAD_CHARSETS = {"utf-7": b"+2AA-", "undefined": b"a"}


@pytest.mark.parametrize("name", BAD_FORMS)
def test_a_form_that_cannot_be_read_says_why(batch_server: HttpServer, name: str) -> None:
    content, message = BAD_FORMS[name]
    check_bad_form(batch_server, content, "multipart/form-data; boundary=x", message)


@pytest.mark.parametrize("charset", BAD_CHARSETS)
def test_a_name_that_is_no_text_is_refused(batch_server: HttpServer, charset: str) -> None:
    content = PURPOSE + FILE % BAD_CHARSETS[charset] + b"--x--\r\n"
    kind = f"multipart/form-data; boundary=x; charset={charset}"
    check_bad_form(batch_server, content, kind, "the form cannot be read: ")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("multipart/form-data; charset=x", "Missing boundary"),
        (f"Multipart/Form-Data; boundary={'x' * 300}", "Boundary length 300"),
    ],
)
def test_a_bad_boundary_is_refused(batch_server: HttpServer, kind: str, message: str) -> None:
    check_bad_form(batch_server, PURPOSE + b"--x--\r\n", kind, message)


def check_bad_form(server: HttpServer, content: bytes, kind: str, message: str) -> None:
    uploads = {"purpose": "batch"}  # an earlier batch may write its output meanwhile
    before = server.client.get("/v1/files", params=uploads).json()
    response = server.client.post("/v1/files", content=content, headers={"content-type": kind})
    assert (response.status_code, error_of(response)["code"]) == (400, "invalid_request")
    assert message in error_of(response)["message"]
    assert "send multipart/form-data with the fields" in error_of(response)["message"]
    assert server.client.get("/v1/files", params=uploads).json() == before


@pytest.mark.parametrize("chunked", [False, True])
def test_a_file_beyond_the_limit_is_refused_and_one_within_it_is_not(
    batch_server: HttpServer, chunked: bool
) -> None:
    def response_to(size: int) -> httpx.Response:
        request = batch_server.client.build_request(
            "POST", "/v1/files", files={"file": ("a", b"x" * size)}, data={"purpose": "batch"}
        )
        content, headers = request.read(), {"content-type": request.headers["content-type"]}
        parts = iter([content[:100], content[100:]]) if chunked else content
        return batch_server.client.post("/v1/files", content=parts, headers=headers)

    assert response_to(10_000).json()["bytes"] == 10_000
    response = response_to(15_000)
    assert (response.status_code, error_of(response)["code"]) == (413, "body_too_large")


def test_without_a_folder_batches_are_refused(tmp_path: Path) -> None:
    with local_server(write_static_model(tmp_path)) as server:
        responses = [
            upload(server, requests(1)),
            server.client.get("/v1/files"),
            server.client.get("/v1/batches"),
            server.post("/v1/batches", {"input_file_id": "x", "endpoint": "/v1/embeddings"}),
            server.client.delete("/v1/files/file-0"),
        ]
    for response in responses:
        assert (response.status_code, error_of(response)["code"]) == (403, "batches_disabled")
        assert "EMBEDWELL_BATCH_FOLDER" in error_of(response)["message"]


def test_files_and_batches_need_the_key(tmp_path: Path) -> None:
    model = write_static_model(tmp_path)
    with local_server(model, api_key="sesame", batch_folder=tmp_path / "batches") as server:
        assert upload(server, requests(1)).status_code == 401
        assert server.client.get("/v1/batches").status_code == 401
        server.client.headers["authorization"] = "Bearer sesame"
        id = create(server, requests(2)).json()["id"]
        assert finished(server, id)["request_counts"]["completed"] == 2


@pytest.mark.full
def test_kills_and_restarts_lose_and_repeat_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "batches"
    content = requests(1500)

    def completed() -> int:
        with contextlib.suppress(httpx.TransportError):  # the HTTP process is being replaced
            [batch] = server.client.get("/v1/batches").json()["data"]
            return int(batch["request_counts"]["completed"])
        return 0

    with Server(tmp_path / "log", batch_folder=folder) as server:
        id = create(server, content).json()["id"]
        for at_least in (50, 250):
            server.wait_until(lambda: completed() > at_least)  # noqa: B023 - called at once
            [worker] = server.children(HTTP_PROCESS)
            worker.kill()
        server.wait_until(lambda: completed() > 500)
        assert server.stop() == 0
    [state] = folder.glob("batches/*/batch.json")
    assert 0 < json.loads(state.read_bytes())["progress"]["input"] < len(content)
    with Server(tmp_path / "log", batch_folder=folder) as server:
        disturbed = finished(server, id)
        undisturbed = finished(server, create(server, content).json()["id"])
        assert disturbed["request_counts"] == {"total": 1500, "completed": 1500, "failed": 0}
        both = [results(server, batch["output_file_id"]) for batch in (disturbed, undisturbed)]
    for first, second in zip(*both, strict=True):
        assert first["custom_id"] == second["custom_id"]
        assert known(first["response"]["body"]) == known(second["response"]["body"])


def test_a_folder_that_cannot_be_written_is_named_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [sys.executable, "-m", "embedwell", "serve", "--port", "0"]
    done = subprocess.run(
        [*command, "--batch-folder", str(tmp_path / "file" / "batches")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "the server cannot start: " in done.stderr and "file/batches" in done.stderr
