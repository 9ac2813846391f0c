"""A run that is killed, in a process of its own."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import Folder
from tests.service.bulk.jobs import contents, write_parquet

pytestmark = pytest.mark.full

COUNT, PART_ROWS = 3000, 100


def command(model: Path, source: Path, output: Path) -> list[str]:
    options = ["--model", str(model), "--dtype", "float32", "--id", "id", "--resume"]
    rows = ["--part-rows", str(PART_ROWS)]
    return [
        sys.executable,
        "-m",
        "embedwell",
        "embed",
        str(source),
        "-o",
        str(output),
        *options,
        *rows,
    ]


@pytest.mark.parametrize("part", [1, pytest.param(9, marks=pytest.mark.full)])
def test_a_killed_run_that_is_resumed_ends_with_the_bytes_of_an_undisturbed_one(
    part: int, tiny_bert: Folder, tmp_path: Path
) -> None:
    model, path, out = tiny_bert(), write_parquet(tmp_path / "in.parquet", COUNT), tmp_path / "out"
    last = out / f"part-{COUNT // PART_ROWS - 1:06}.parquet"
    with subprocess.Popen(command(model, path, out), stderr=subprocess.DEVNULL) as process:
        while not (out / f"part-{part:06}.parquet").exists():
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()
    assert process.returncode == -signal.SIGKILL and not last.exists()
    subprocess.run(command(model, path, out), check=True)
    subprocess.run(command(model, path, tmp_path / "undisturbed"), check=True)
    assert last.exists() and contents(out) == contents(tmp_path / "undisturbed")
