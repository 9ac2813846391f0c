"""Runs: what is written, and that a run that was stopped ends as an undisturbed one."""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from embedwell_bulk import BulkError
from embedwell_bulk.columns import Columns
from embedwell_bulk.local_model import LocalModel
from embedwell_bulk.run import Shard, write_behind
from embedwell_bulk.text_encoder import Advance, Encoded, Pending
from tests.service.bulk.jobs import (
    contents,
    prose,
    read_output,
    run_job,
    vectors_of,
    write_parquet,
)


class Stopped(Exception):
    """Exception that stops a run."""


class StoppingModel:
    """A model that stops the run after a number of parts, whose texts it embeds at once."""

    min_texts = 1000

    def __init__(self, model: LocalModel, parts: int) -> None:
        self._model, self._parts = model, parts
        self.dim, self.description = model.dim, model.description

    def begin(self, texts: Sequence[str], advance: Advance) -> Pending:
        self._parts -= 1
        if self._parts < 0:
            raise Stopped
        return self._model.begin(texts, advance)


class CountingModel(StoppingModel):
    """A model that counts the windows that it embeds."""

    windows = 0

    def begin(self, texts: Sequence[str], advance: Advance) -> Pending:
        self.windows += 1
        return self._model.begin(texts, advance)


def manifest(folder: Path, name: str = "_manifest.json") -> Any:
    return json.loads((folder / name).read_text())


def test_parquet_has_all_columns_and_the_vectors_of_the_texts(
    small: LocalModel, tmp_path: Path
) -> None:
    counts = run_job(small, write_parquet(tmp_path / "in.parquet", 250), tmp_path / "out")
    table = read_output(tmp_path / "out")
    assert table.drop_columns(["embedding"]).equals(pq.read_table(tmp_path / "in.parquet"))
    assert table.schema.field("embedding").type.list_size == 48
    np.testing.assert_array_equal(vectors_of(table), small.embedder.embed(prose(250)))
    distinct = len({*prose(250)})
    assert counts == {"rows": 250, "embedded": 250, "errors": 0, "computed": distinct}


def test_npy_parts_have_their_rows_next_to_them(small: LocalModel, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "in.parquet", 30)
    run_job(small, path, tmp_path / "out", format="npy", part_rows=20)
    parts = [np.load(tmp_path / "out" / f"part-00000{i}.npy") for i in (0, 1)]
    np.testing.assert_array_equal(np.concatenate(parts), small.embedder.embed(prose(30)))
    rows = pa.concat_tables([*map(pq.read_table, sorted((tmp_path / "out").glob("*.parquet")))])
    assert rows.equals(pq.read_table(path))


def test_the_manifest_names_the_model_and_the_checksum_of_each_file(
    small: LocalModel, tmp_path: Path
) -> None:
    path, out = write_parquet(tmp_path / "in.parquet", 50), tmp_path / "out"
    run_job(small, path, out, part_rows=20)
    written = manifest(out)
    assert written["complete"] and written["counts"]["embedded"] == 50
    assert written["run"]["fingerprint"] == small.embedder.fingerprint
    assert written["run"]["inputs"]["files"] == 1
    files = {name: file for part in written["parts"] for name, file in part["files"].items()}
    assert {*files} == {path.name for path in out.iterdir()} - {"_manifest.json"}
    for name, file in files.items():
        content = (out / name).read_bytes()
        assert file == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_a_row_without_an_id_gets_its_number_in_the_input(
    small: LocalModel, tmp_path: Path
) -> None:
    for name, lines in (("a", "one\ntwo\n"), ("b", "three\n")):
        (tmp_path / f"{name}.txt").write_text(lines)
    run_job(small, f"{tmp_path}/*.txt", tmp_path / "out", columns=Columns(), part_rows=2)
    table = read_output(tmp_path / "out")
    assert table.column_names == ["row", "text", "embedding"]
    assert table["row"].to_pylist() == [0, 1, 2]


def test_bad_rows_go_to_a_file_with_their_place_and_reason(
    small: LocalModel, tmp_path: Path
) -> None:
    path = tmp_path / "in.jsonl"
    lines = ['{"id": 1, "text": "a"}', "{", '{"id": 3}', '{"text": "b"}', '{"id": 5, "text": "c"}']
    path.write_text("\n".join(lines))
    counts = run_job(small, path, tmp_path / "out")
    assert counts["embedded"] == 2 and counts["errors"] == 3
    table = read_output(tmp_path / "out")
    assert table["id"].to_pylist() == [1, 5]
    np.testing.assert_array_equal(vectors_of(table), small.embedder.embed(["a", "c"]))
    text = (tmp_path / "out" / "_errors-000000.jsonl").read_text()
    first, *errors = map(json.loads, text.splitlines())
    assert first["position"] == 2 and first["reason"].startswith("not JSON")
    where = {"file": str(path)}
    assert errors == [
        where | {"position": 3, "row": 2, "id": 3, "reason": "no text"},
        where | {"position": 4, "row": 3, "id": None, "reason": "id is null"},
    ]


def test_only_the_columns_to_keep_and_the_id_are_written(small: LocalModel, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "in.parquet", 5)
    run_job(small, path, tmp_path / "out", columns=Columns(id="id", keep=("tags",)))
    assert read_output(tmp_path / "out").column_names == ["id", "tags", "embedding"]


@pytest.mark.parametrize("stopped_after", [0, 1, 3])
@pytest.mark.parametrize("format", ["parquet", "npy"])
def test_a_resumed_run_ends_with_the_bytes_of_an_undisturbed_one(
    small: LocalModel, stopped_after: int, format: str, tmp_path: Path
) -> None:
    path, out = write_parquet(tmp_path / "in.parquet", 100), tmp_path / "out"
    run_job(small, path, tmp_path / "undisturbed", format=format, part_rows=30)
    with pytest.raises(Stopped):
        run_job(StoppingModel(small, stopped_after), path, out, format=format, part_rows=30)
    assert not manifest(out)["complete"]
    counting = CountingModel(small, 0)
    run_job(counting, path, out, format=format, part_rows=30, resume=True)
    assert counting.windows == 4 - stopped_after
    assert contents(out) == contents(tmp_path / "undisturbed")


class InterruptedModel(StoppingModel):
    """A model to which a signal comes after two groups of texts, the first of which has ten."""

    min_texts = 10

    def begin(self, texts: Sequence[str], advance: Advance) -> Pending:
        if not self._parts:
            raise SystemExit(130)
        self._parts -= 1
        return self._model.begin(texts, advance)


class RecordingModel(CountingModel):
    """A model that records the texts that it embeds."""

    def __init__(self, model: LocalModel) -> None:
        super().__init__(model, 0)
        self.texts: list[str] = []

    def begin(self, texts: Sequence[str], advance: Advance) -> Pending:
        self.texts += texts
        return super().begin(texts, advance)


def test_the_texts_of_an_interrupted_part_are_not_computed_again(
    small: LocalModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write_parquet(tmp_path / "in.parquet", 100), tmp_path / "out"
    run_job(small, path, tmp_path / "undisturbed", part_rows=60)
    with pytest.raises(SystemExit):
        run_job(InterruptedModel(small, 1), path, out, part_rows=60, stream=sys.stderr)
    kept = f"Stopped. {out} has 10 texts of unfinished parts. "
    assert capsys.readouterr().err == f"{kept}To continue, run the same command with --resume.\n"
    assert {*contents(out)} == {"_manifest.json", "_unfinished-000000.arrow"}
    recording = RecordingModel(small)
    run_job(recording, path, out, part_rows=60, resume=True)
    distinct = [{*prose(100)[:60]}, {*prose(100)[60:]}]
    assert len(recording.texts) == sum(map(len, distinct)) - 10
    assert contents(out) == contents(tmp_path / "undisturbed")


@pytest.mark.parametrize("change", ["another run", "damaged"])
def test_results_of_another_run_are_computed_again(
    small: LocalModel, change: str, tmp_path: Path
) -> None:
    path, out = write_parquet(tmp_path / "in.parquet", 60), tmp_path / "out"
    with pytest.raises(SystemExit):
        run_job(InterruptedModel(small, 1), path, out)
    (out / "_manifest.json").unlink()
    if change == "damaged":
        (out / "_unfinished-000000.arrow").write_bytes(b"ARROW1")
    prompted = LocalModel(small.embedder, "small", "a " if change == "another run" else None)
    recording = RecordingModel(prompted)
    run_job(recording, path, out)
    assert {*recording.texts} == {*prose(60)}
    assert {*contents(out)} == {"_manifest.json", "part-000000.parquet"}


def test_a_part_that_is_missing_or_short_is_written_again(
    small: LocalModel, tmp_path: Path
) -> None:
    path, out = write_parquet(tmp_path / "in.parquet", 100), tmp_path / "out"
    run_job(small, path, out, part_rows=30)
    before = contents(out)
    (out / "part-000001.parquet").unlink()
    (out / "part-000002.parquet").write_bytes(b"short")
    counting = CountingModel(small, 0)
    run_job(counting, path, out, part_rows=30, resume=True)
    assert counting.windows == 2 and contents(out) == before


def test_a_folder_with_a_run_is_not_written_to_without_resume(
    small: LocalModel, tmp_path: Path
) -> None:
    path = write_parquet(tmp_path / "in.parquet", 10)
    run_job(small, path, tmp_path / "out", resume=True)  # which also begins a run
    with pytest.raises(BulkError, match=r"the _manifest\.json of an earlier run; .* --resume"):
        run_job(small, path, tmp_path / "out")


def test_another_model_option_or_input_cannot_resume(small: LocalModel, tmp_path: Path) -> None:
    path, out = write_parquet(tmp_path / "in.parquet", 10), tmp_path / "out"
    run_job(small, path, out)
    prompted = LocalModel(small.embedder, "small", "query: ")
    with pytest.raises(BulkError, match='different run \\(prompt was "", now it is "query: "'):
        run_job(prompted, path, out, resume=True)
    with pytest.raises(BulkError, match="part_rows was 16384, now it is 5"):
        run_job(small, path, out, part_rows=5, resume=True)
    os.utime(path, (1, 1))  # written again with as many bytes
    with pytest.raises(BulkError, match=r'inputs was \{"files":1'):
        run_job(small, path, out, resume=True)


def test_shards_together_write_the_parts_of_a_single_run(small: LocalModel, tmp_path: Path) -> None:
    path, out = write_parquet(tmp_path / "in.parquet", 100), tmp_path / "out"
    run_job(small, path, tmp_path / "single", part_rows=30)
    for number in (1, 2, 3):
        run_job(small, path, out, part_rows=30, shard=Shard(number, 3))
    parts = {name: content for name, content in contents(out).items() if name[0] != "_"}
    single = contents(tmp_path / "single")
    del single["_manifest.json"]
    assert parts == single
    counts = [manifest(out, f"_manifest-{i}-of-3.json")["counts"]["rows"] for i in (1, 2, 3)]
    assert counts == [40, 30, 30]


def test_a_temporary_file_of_a_killed_run_is_replaced(small: LocalModel, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / ".part-000000.parquet.tmp").write_bytes(b"half of a part")
    run_job(small, write_parquet(tmp_path / "in.parquet", 10), out)
    assert {*contents(out)} == {"_manifest.json", "part-000000.parquet"}


def test_a_foreign_manifest_is_refused(small: LocalModel, tmp_path: Path) -> None:
    path, out = write_parquet(tmp_path / "in.parquet", 10), tmp_path / "out"
    out.mkdir()
    for content, message in (("{", "is not a manifest"), ('{"version": 2}', "has version 2")):
        (out / "_manifest.json").write_text(content)
        with pytest.raises(BulkError, match=message):
            run_job(small, path, out, resume=True)


def test_an_input_of_bad_rows_only_has_a_part_without_vectors(
    small: LocalModel, tmp_path: Path
) -> None:
    table = pa.table({"id": [1], "text": pa.array([None], pa.string())})
    pq.write_table(table, tmp_path / "in.parquet")
    assert run_job(small, tmp_path / "in.parquet", tmp_path / "out")["errors"] == 1
    assert vectors_of(read_output(tmp_path / "out")).shape[0] == 0


ENCODED = Encoded(np.zeros((0, 1), np.float32), {}, 0)


@dataclass
class LoggedEmbedding:
    """Logs when it is waited for. at_once: whether it is done when it has begun."""

    number: int
    at_once: bool
    log: list[str]

    def done(self) -> bool:
        return self.at_once

    def encoded(self) -> Encoded:
        self.log.append(f"embedded {self.number}")
        return ENCODED


def begin(log: list[str], at_once: bool) -> Iterator[LoggedEmbedding]:
    for number in range(4):
        log.append(f"begun {number}")
        yield LoggedEmbedding(number, at_once, log)


def test_a_part_begins_before_the_last_texts_of_the_one_before_are_waited_for() -> None:
    log: list[str] = []
    write_behind(begin(log, False), lambda part, _: log.append(f"written {part.number}"))
    assert log[:6] == ["begun 0", "begun 1", "embedded 0", "written 0", "begun 2", "embedded 1"]
    assert [entry for entry in log if entry.startswith("written")] == [
        f"written {number}" for number in range(4)
    ]


@pytest.mark.parametrize("at_once", [True, False])
def test_no_third_part_is_begun_before_the_first_is_written(at_once: bool) -> None:
    log: list[str] = []
    write_behind(begin(log, at_once), lambda part, _: log.append(f"written {part.number}"))
    for number in (2, 3):
        assert log.index(f"written {number - 2}") < log.index(f"begun {number}")


def test_a_part_that_is_done_is_written_while_the_next_one_is_embedded() -> None:
    begun = [Event() for _ in range(5)]
    begun[4].set()
    log: list[str] = []

    def parts() -> Iterator[LoggedEmbedding]:
        for part in begin(log, True):
            begun[part.number].set()
            yield part

    def write(part: LoggedEmbedding, _: Encoded) -> None:
        assert begun[part.number + 1].wait(120)
        log.append(f"written {part.number}")

    write_behind(parts(), write)
    assert log[-1] == "written 3"


def test_a_part_that_cannot_be_written_ends_the_run() -> None:
    def write(part: LoggedEmbedding, _: Encoded) -> None:
        raise BulkError(f"no space for {part.number}")

    log: list[str] = []
    with pytest.raises(BulkError, match="no space for 0"):
        write_behind(begin(log, True), write)
    assert "begun 2" not in log
