"""Addresses: local paths, a real S3 server, and any file system of fsspec."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest

from embedwell_bulk import BulkError
from embedwell_bulk.columns import Columns
from embedwell_bulk.files import OutputFolder, find_inputs
from embedwell_bulk.local_model import LocalModel
from tests.service.bulk.jobs import contents, run_job, write_parquet

_KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def s3_bucket(name: str) -> Iterator[dict[str, str]]:
    """Run moto's server with a bucket, and yield the environment of its clients."""
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, **_KEYS}) as process:
        assert process.stderr is not None
        try:
            match = None
            while match is None:
                line = process.stderr.readline().decode()
                assert line, "moto's server has ended"
                match = re.search(r"Running on (http://\S+)", line)
            log = process.stderr
            url = match.group(1)
            urlopen(Request(f"{url}/{name}", method="PUT")).close()
            yield {**_KEYS, "AWS_ENDPOINT_URL": url}
            log.close()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The address of a bucket, whose server the environment names."""
    with pytest.MonkeyPatch.context() as environment, s3_bucket("bucket") as variables:
        for name, value in variables.items():
            environment.setenv(name, value)
        yield "s3://bucket"


def upload(folder: OutputFolder, path: Path) -> None:
    folder.write(path.name, path.read_bytes())


def test_a_run_from_s3_to_s3_writes_what_a_local_one_does(
    bucket: str, small: LocalModel, tmp_path: Path
) -> None:
    source = OutputFolder.open(f"{bucket}/in put")
    for number in (1, 2):
        upload(source, write_parquet(tmp_path / f"{number}.parquet", 60))
    counts = run_job(small, f"{bucket}/in put/*.parquet", f"{bucket}/out", part_rows=50)
    run_job(small, tmp_path / "*.parquet", tmp_path / "out", part_rows=50)
    assert counts["embedded"] == 120
    written = OutputFolder.open(f"{bucket}/out")
    local = contents(tmp_path / "out")
    assert {*local} > {"part-000002.parquet"}
    for name in {*local} - {"_manifest.json"}:
        assert written.read(name) == local[name]


def test_a_run_on_s3_is_resumed(bucket: str, small: LocalModel, tmp_path: Path) -> None:
    upload(OutputFolder.open(f"{bucket}/one"), write_parquet(tmp_path / "in.parquet", 60))
    job = (small, f"{bucket}/one", f"{bucket}/resumed")
    run_job(*job, part_rows=20)
    folder = OutputFolder.open(f"{bucket}/resumed")
    before = folder.read("part-000001.parquet")
    folder.write("part-000001.parquet", b"short")
    run_job(*job, part_rows=20, resume=True)
    assert folder.read("part-000001.parquet") == before


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
def test_lines_are_read_from_s3(
    bucket: str, suffix: str, small: LocalModel, tmp_path: Path
) -> None:
    path = tmp_path / f"in.{suffix}"
    with pa.output_stream(path, compression="detect") as file:
        file.write(b'{"text": "a"}\n' * 3000)
    upload(OutputFolder.open(f"{bucket}/{suffix}"), path)
    counts = run_job(small, f"{bucket}/{suffix}/{path.name}", tmp_path / "out", columns=Columns())
    assert counts["embedded"] == 3000 and counts["computed"] == 1


def test_hidden_folders_of_a_bucket_are_left_out(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    for folder in ("tree/lang=en", "tree/_temporary/0", "tree/.git", "tree/_delta_log"):
        upload(OutputFolder.open(f"{bucket}/{folder}"), tmp_path / "in.txt")
    for address in (f"{bucket}/tree", f"{bucket}/tree/*/in.txt"):
        [file] = find_inputs([address])
        assert file.relative_path == "lang=en/in.txt"
    [hidden] = find_inputs([f"{bucket}/tree/_temporary/0"])
    assert hidden.address == "s3://bucket/tree/_temporary/0/in.txt"


def test_the_files_of_a_delta_table_come_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "_delta_log").mkdir()
    for name in ("_delta_log/0.json", "a.parquet"):
        (tmp_path / name).write_text("")
    assert [file.relative_path for file in find_inputs([str(tmp_path)])] == ["a.parquet"]
    [message] = caplog.messages
    assert "has a Delta table" in message


def test_a_missing_bucket_or_file_is_named(bucket: str) -> None:
    with pytest.raises(BulkError, match=r"s3://other/x\.parquet: "):
        find_inputs(["s3://other/x.parquet"])
    with pytest.raises(BulkError, match=r"s3://bucket/none/\*: no such file"):
        find_inputs([f"{bucket}/none/*"])
    with pytest.raises(BulkError, match="s3://other/out/a: "):
        OutputFolder.open("s3://other/out").write("a", b"content")


def test_a_file_system_of_fsspec_is_read_and_written(small: LocalModel, tmp_path: Path) -> None:
    write_parquet(tmp_path / "in.parquet", 30)
    upload(OutputFolder.open("memory://in"), tmp_path / "in.parquet")
    run_job(small, "memory://in/*.parquet", "memory://out")
    run_job(small, tmp_path / "in.parquet", tmp_path / "out")
    name = "part-000000.parquet"
    assert OutputFolder.open("memory://out").read(name) == contents(tmp_path / "out")[name]


def test_an_unknown_file_system_is_refused() -> None:
    with pytest.raises(BulkError, match="nowhere://x: Protocol not known: nowhere"):
        find_inputs(["nowhere://x"])


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BulkError, match="file/out: "):
        OutputFolder.open(f"{tmp_path}/file/out")
