"""The report of the benchmark of starts, and the checkouts that it compares."""

import subprocess
import sys
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.environments import ROOT
from benchmarks.machine import describe
from benchmarks.startup import Checkout, command_line, cpu_seconds, pss_mb, report


def start(seconds: float, engine: float) -> dict[str, Any]:
    memory = {"first": 20.0, "HTTP": 60.0, "engine": engine}
    cpu = {"first": 0.2, "HTTP": 0.5, "engine": 0.1}
    return {"seconds": seconds, "cpu_s": cpu, "pss_mb": memory, "pss_after_mb": memory}


def test_the_report_has_medians_of_all_processes_and_the_least_of_each() -> None:
    starts = {"this, int8, later start": [start(0.7, 90.0), start(0.9, 70.0), start(0.8, 80.0)]}
    results = {"machine": describe(), "model": "m", "requests": 100, "starts": starts}
    *_, totals, _, _, _, parts = report(results).splitlines()
    assert " ".join(totals.split()) == (
        "this, int8, later start 0.80 (0.70-0.90) 0.80 (0.80-0.80) 160 (150-170) 160 (150-170)"
    )
    assert parts.split()[-6:] == ["0.20", "0.50", "0.10", "20", "60", "70"]


def test_a_checkout_is_a_name_and_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMBEDWELL_PORT", "1")
    other = command_line().parse_args(["--at", f"other={ROOT}"]).at[0]
    assert other == Checkout("other", ROOT)
    assert other.environment()["PYTHONPATH"].split(":") == [f"{ROOT}/models", f"{ROOT}/service"]
    assert "EMBEDWELL_PORT" not in other.environment()
    for text in (str(ROOT), f"other={tmp_path}"):
        with pytest.raises(ArgumentTypeError, match="is not NAME=FOLDER"):
            Checkout.parse(text)


def test_a_process_alone_is_the_first() -> None:
    work = "import os\nwhile sum(os.times()[:2]) < 0.2: pass\nprint(flush=True)\ninput()"
    command = [sys.executable, "-c", work]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        this = psutil.Process(process.pid)
        assert cpu_seconds(this)["first"] >= 0.1
        assert pss_mb(this)["first"] > 1
        process.communicate(b"\n")
