"""Tests of models of a hub: what is fetched of one, what of it stays, and what is told."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from models.errors import ModelError
from models.sources import resolve
from tests.conftest import Folder
from tests.models.hub import COMMIT, Hub

NAME = "organisation/name"
FILES = {
    "config.json": b"{}",
    "1_Pooling/config.json": b'{"a": 1}',
    "model.safetensors": b"weights" * 1000,
    "vocab.txt": b"a\nb\n",
    "spiece.model": b"pieces",
}
OTHERS = {"pytorch_model.bin": b"a pickle", "onnx/model.onnx": b"a graph", "modeling.py": b"code"}

Pull = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def pull(tmp_path: Path) -> Pull:
    """Runs `embedding-service pull`: the client of a hub reads its settings once in a process."""

    def run(hub: Hub, *flags: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        program = [sys.executable, "-m", "service", "pull", "--model", NAME]
        return subprocess.run(
            [*program, "--cache", str(tmp_path), *flags],
            env={**os.environ, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub.url, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


def found(folder: str) -> dict[str, bytes]:
    """The files of a folder that was printed."""
    root = Path(folder.strip())
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_of_a_model_on_a_hub_what_is_read_is_fetched_and_no_code_or_pickle(pull: Pull) -> None:
    with Hub(NAME, FILES | OTHERS) as hub:
        done = pull(hub)
    assert done.returncode == 0, done.stderr
    assert found(done.stdout) == FILES


def test_a_hub_is_not_asked_again_for_what_was_fetched_once(pull: Pull) -> None:
    with Hub(NAME, FILES) as hub:
        first = pull(hub)
        hub.asked.clear()
        second = pull(hub)
        assert hub.asked == []
    assert first.stdout == second.stdout
    assert pull(hub).stdout == first.stdout  # which is gone now


@pytest.mark.parametrize("revision", ["v1", COMMIT])
def test_a_revision_may_be_a_tag_or_a_commit(pull: Pull, revision: str) -> None:
    with Hub(NAME, FILES) as hub:
        assert found(pull(hub, "--revision", revision).stdout) == FILES


def test_what_was_broken_off_is_told_in_a_line_and_goes_on(pull: Pull) -> None:
    with Hub(NAME, FILES) as hub:
        hub.broken.add("model.safetensors")
        broken = pull(hub)
        assert broken.returncode == 1 and broken.stdout == ""
        last = broken.stderr.splitlines()[-1]
        assert last.startswith(f"Error: '{NAME}' could not be fetched from the hub: ")
        assert "Traceback" not in broken.stderr
        hub.broken.clear()
        assert found(pull(hub).stdout) == FILES


def test_a_model_that_is_not_public_is_had_with_a_token(pull: Pull) -> None:
    with Hub(NAME, FILES, token="sesame") as hub:
        refused = pull(hub)
        assert refused.returncode == 1
        assert refused.stderr.endswith("one that is not public needs a token in HF_TOKEN\n")
        assert found(pull(hub, HF_TOKEN="sesame").stdout) == FILES


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--revision", "v9"], "Revision Not Found"),
        (["--model", "organisation/other"], "Repository Not Found"),
    ],
)
def test_what_a_hub_does_not_have_is_told(pull: Pull, flags: list[str], told: str) -> None:
    with Hub(NAME, FILES) as hub:
        done = pull(hub, *flags)
    assert done.returncode == 1
    assert "Error: 'organisation/" in done.stderr and told in done.stderr


def test_a_model_of_a_hub_is_served_like_any_other(pull: Pull, tiny_bert: Folder) -> None:
    from models.embedder import Embedder

    folder = tiny_bert()
    with Hub(NAME, {path.name: path.read_bytes() for path in folder.iterdir()}) as hub:
        fetched = Path(pull(hub).stdout.strip())
    one, other = (Embedder.load(each, device="cpu", dtype="float32") for each in (folder, fetched))
    assert one.fingerprint == other.fingerprint
    assert one.embed(["a text"]).tobytes() == other.embed(["a text"]).tobytes()


def test_a_hub_out_of_reach_is_told_at_once(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(ModelError, match="'organisation/name' could not be fetched from the hub"):
        resolve(NAME, cache=tmp_path)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("name", ["organisation/na me", "organisation/a--b", "-o-/n"])
def test_a_name_that_no_hub_can_have_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match=name):
        resolve(name, cache=tmp_path)
