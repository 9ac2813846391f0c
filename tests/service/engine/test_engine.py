"""Tests of how the engine process starts, and fails to."""

import logging
from pathlib import Path

import pytest

from embedwell.engine.process.main import load_and_measure
from embedwell.engine.protocol.spec import EngineSpec
from embedwell.process.supervisor import EXIT_PERMANENT_FAILURE


def spec(folder: Path, threads: int = 1) -> EngineSpec:
    choices = ("cpu", "float32", "auto", "auto", "auto", "auto")
    return EngineSpec(str(folder), *choices, threads, 0, "info", "text", 0, 0, 1)


def test_an_unexpected_error_is_logged_and_prevents_a_restart(
    minilm_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SystemExit) as ended:
        load_and_measure(spec(minilm_folder, threads=-1))  # which settings do not let through
    assert ended.value.code == EXIT_PERMANENT_FAILURE
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.message == "the model cannot be loaded" and record.exc_info
