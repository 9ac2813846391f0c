"""What all benchmarks share: their options, and their end by a signal."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.script import choose, parser

ROOT = Path(__file__).parents[2]
ENDED = """
import os, signal
from benchmarks import script

def run(args):
    try:
        os.kill(os.getpid(), signal.%s)
        return {}
    finally:
        print("cleaned up")

script.main(script.parser("about", "name"), run, lambda results: "report")
"""
NAMES = ["OpenVINO, int8", "this, float32", "this, int8"]


def test_contestants_are_chosen_by_parts_of_their_names() -> None:
    assert choose(NAMES, []) == NAMES
    assert choose(NAMES, ["THIS"]) == NAMES[1:]
    assert choose(NAMES, ["float32", "openvino"]) == NAMES[:2]


def test_a_text_in_no_name_of_a_contestant_is_an_error_that_lists_the_names() -> None:
    with pytest.raises(SystemExit) as error:
        choose(NAMES, ["this", "embedwell"])
    assert str(error.value) == (
        "--only 'embedwell' matches no contestant; "
        "choose from: OpenVINO, int8; this, float32; this, int8"
    )


def test_a_benchmark_may_have_models_of_its_own() -> None:
    own = parser("about", "name", ["a", "b"])
    assert own.parse_args([]).model == "a" and own.parse_args(["--model", "b"]).model == "b"
    with pytest.raises(SystemExit):
        own.parse_args(["--model", "c"])
    assert parser("about", "name").parse_args(["--model", "c"]).model == "c"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_ends_a_benchmark_with_a_message(name: str, tmp_path: Path) -> None:
    files = ["--home", str(tmp_path), "--json", str(tmp_path / "results.json")]
    command = [sys.executable, "-c", ENDED % name, *files]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert process.stdout == "cleaned up\n"
    assert process.stderr == f"{name} ended it: nothing is saved\n"
