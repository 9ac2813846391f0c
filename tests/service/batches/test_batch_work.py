"""A batch's results are its requests', whatever interrupts it and however it ends."""

import json
import shutil
from pathlib import Path

import orjson
import pytest

from embedwell.errors import TooLarge
from embedwell_batches.batch import Batch, Status
from tests.service.batches.stores import BLOCK, ENDPOINT, WINDOW, Stores, requests, responses

SIZE = len(requests(1))


def compute(stores: Stores, id: str, failing: str = "") -> Batch:
    """Compute what is left of a batch, a request at a time."""
    work = stores.work(id)
    if not work.publish_end() and work.start():
        while window := work.next_requests(1):
            work.record(responses(window, failing))
        work.finish("completed")
    return stores.batches.get(id)


def test_results_and_errors_become_files(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    batch = compute(stores, stores.create(3), failing="1")
    assert batch.status == "completed" and batch.completed_at is not None
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (3, 2, 1)
    assert stores.lines(batch.output_file_id) == [
        {
            "id": f"id of {name}",
            "custom_id": name,
            "error": None,
            "response": {
                "status_code": 200,
                "request_id": f"id of {name}",
                "body": {"input": f"the work {name}"},
            },
        }
        for name in "02"
    ]
    [failed] = stores.lines(batch.error_file_id)
    assert (failed["custom_id"], failed["response"]["status_code"]) == ("1", 400)
    folder = stores.batches.folder(batch.id)
    assert [path.name for path in folder.iterdir()] == ["batch.json"]


@pytest.mark.parametrize("status", ["completed", "cancelled"])
def test_results_have_no_line_end_but_those_of_lines(tmp_path: Path, status: Status) -> None:
    stores, name = Stores(tmp_path), "a\x85b\u2028c\u2029d"
    line = {"custom_id": name, "method": "POST", "url": ENDPOINT, "body": {"input": name}}
    file = stores.add(orjson.dumps(line) + b"\n" + requests(1))
    work = stores.work(stores.batches.create(file, ENDPOINT, WINDOW, None).id)
    work.start()
    if status == "completed":
        work.record(responses(work.next_requests(10 * SIZE)))
    work.finish(status)
    batch = stores.batches.get(work.batch.id)
    id = batch.output_file_id or batch.error_file_id
    assert id is not None
    lines = stores.files.content(id).read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["custom_id"] for line in lines] == [name, "0"]
    if status == "completed":
        assert json.loads(lines[0])["response"]["body"] == {"input": name}


def test_without_errors_there_is_no_file_of_them(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    batch = compute(stores, stores.create(1))
    assert batch.output_file_id is not None and batch.error_file_id is None


def test_a_file_with_problems_fails_before_anything_is_computed(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    file = stores.add(b"{}\n" + requests(1))
    batch = compute(stores, stores.batches.create(file, ENDPOINT, WINDOW, None).id)
    assert batch.status == "failed" and batch.failed_at is not None
    assert batch.errors is not None and [problem.line for problem in batch.errors.data] == [1]
    assert batch.output_file_id is batch.error_file_id is None


def test_an_interrupted_batch_has_the_results_of_one_that_was_not(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    id = stores.create(6)
    undisturbed = Stores(shutil.copytree(tmp_path, tmp_path.with_name("undisturbed")))
    work = stores.work(id)
    assert work.start()
    window = work.next_requests(2 * SIZE)
    assert [line.custom_id for line in window] == ["0", "1"]
    work.record(responses(window, failing="1"))
    folder = stores.batches.folder(id)
    for name in ("output", "errors"):  # a kill after these were written, and before they counted
        with (folder / f"{name}.jsonl").open("ab") as file:
            file.write(b'{"custom_id": "2", "resp')
    resumed = compute(Stores(tmp_path), id, failing="1")
    expected = compute(undisturbed, id, failing="1")
    for name in ("output_file_id", "error_file_id"):
        assert stores.lines(getattr(resumed, name)) == undisturbed.lines(getattr(expected, name))
    assert resumed.request_counts == expected.request_counts


@pytest.mark.parametrize("moved", [[], ["output"], ["output", "errors"]])
def test_a_batch_whose_end_was_interrupted_ends_with_all_results(
    tmp_path: Path, moved: list[str]
) -> None:
    stores = Stores(tmp_path)
    id = stores.create(2)
    folder = stores.batches.folder(id)
    work = stores.work(id)
    work.start()
    work.record(responses(work.next_requests(10 * SIZE), failing="1"))
    for name in ("output", "errors"):
        shutil.copy(folder / f"{name}.jsonl", tmp_path)
    work.finish("completed")
    ended = stores.batches.load_stored(id)
    ended.batch.status = "finalizing"  # as it was saved before the files were moved
    ended.batch.output_file_id = ended.batch.error_file_id = None
    stores.batches.save(ended)
    assert ended.ending is not None
    for name, file in zip(
        ("output", "errors"), (ended.ending.output_file_id, ended.ending.error_file_id), strict=True
    ):
        if name not in moved:
            assert file is not None
            shutil.rmtree(tmp_path / "files" / file)
            shutil.copy(tmp_path / f"{name}.jsonl", folder)
    batch = compute(Stores(tmp_path), id)
    assert batch.status == "completed"
    assert [line["custom_id"] for line in stores.lines(batch.output_file_id)] == ["0"]
    assert [line["custom_id"] for line in stores.lines(batch.error_file_id)] == ["1"]


@pytest.mark.parametrize("status", ["cancelled", "expired"])
def test_what_is_not_computed_at_an_early_end_is_among_the_errors(
    tmp_path: Path, status: str
) -> None:
    stores = Stores(tmp_path)
    work = stores.work(stores.create(3))
    work.start()
    work.record(responses(work.next_requests(1)))
    work.finish(status)  # type: ignore[arg-type]
    batch = stores.batches.get(work.batch.id)
    assert batch.status == status and getattr(batch, f"{status}_at") is not None
    assert [line["custom_id"] for line in stores.lines(batch.output_file_id)] == ["0"]
    errors = stores.lines(batch.error_file_id)
    assert [(line["custom_id"], line["error"]["code"]) for line in errors] == [
        ("1", f"batch_{status}"),
        ("2", f"batch_{status}"),
    ]
    counts = batch.request_counts
    assert (counts.total, counts.completed, counts.failed) == (3, 1, 0)


def test_results_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    stores = Stores(tmp_path, folder_bytes=3 * BLOCK)  # the file with its description, the batch
    work = stores.work(stores.create(1))
    work.start()
    with pytest.raises(TooLarge, match="EMBEDWELL_BATCH_MAX_BYTES"):
        work.record(responses(work.next_requests(1)))
    assert (stores.batches.folder(work.batch.id) / "output.jsonl").read_bytes() == b""
    work.fail("storage_full", "no room")
    assert stores.batches.get(work.batch.id).output_file_id is None


def test_results_that_were_written_but_not_counted_are_not_in_a_file(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    work = stores.work(stores.create(2))
    work.start()
    work.record(responses(work.next_requests(1)))
    with (stores.batches.folder(work.batch.id) / "output.jsonl").open("ab") as file:
        file.write(b'{"custom_id": "1", "resp')  # the disk was full in the middle
    work.fail("x", "y")
    batch = stores.batches.get(work.batch.id)
    assert [line["custom_id"] for line in stores.lines(batch.output_file_id)] == ["0"]


def test_a_batch_that_ends_before_its_requests_are_checked_has_no_files(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    file = stores.add(requests(2) + b"no JSON\n")
    work = stores.work(stores.batches.create(file, ENDPOINT, WINDOW, None).id)
    work.finish("cancelled")
    batch = stores.batches.get(work.batch.id)
    assert (batch.status, batch.output_file_id, batch.error_file_id) == ("cancelled", None, None)


def test_requests_that_are_computed_together_are_few(tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    work = stores.work(stores.create(1500))
    work.start()
    assert len(work.next_requests(1 << 20)) == 1000
