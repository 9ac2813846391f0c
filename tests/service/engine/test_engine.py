"""Tests of how the engine's process starts: what no other start would mend ends it, told once."""

import logging
from pathlib import Path

import pytest

from service.engine.protocol.spec import EngineSpec
from service.engine.worker.process import load_and_measure
from service.process.supervisor import REFUSED


def spec(folder: Path, threads: int = 1) -> EngineSpec:
    return EngineSpec(str(folder), "cpu", "float32", "auto", "auto", threads, 0, "info", 0, 0, 1)


def test_what_nobody_foresaw_is_logged_and_refuses_every_start(
    minilm_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SystemExit) as ended:
        load_and_measure(spec(minilm_folder, threads=-1))  # which settings do not let through
    assert ended.value.code == REFUSED
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.message == "the model cannot be loaded" and record.exc_info
