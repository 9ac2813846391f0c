"""Tests of how an engine starts, and fails to."""

import logging
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from embedwell.engine.wire.spec import EngineSpec
from embedwell.launch.engine_process import Started, run_engine
from embedwell.launch.supervised import EXIT_PERMANENT_FAILURE, HTTP_PROCESS
from embedwell_models.config.model_options import ModelOptions
from embedwell_models.cpu_backend import library
from embedwell_models.errors import DeviceUnavailableError
from tests.service.server import MAX_ISA, Server


def spec(folder: Path, threads: int = 1) -> EngineSpec:
    options = ModelOptions(device="cpu", dtype="float32", threads=threads)
    return EngineSpec(str(folder), options, 0, 0, 1)


def test_an_unexpected_error_is_logged_and_prevents_a_restart(
    minilm_folder: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_engine(spec(minilm_folder, threads=-1))  # which settings do not let through
    assert ended.value.code == EXIT_PERMANENT_FAILURE
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.message == "the model cannot be loaded" and record.exc_info
    assert '"event":"failed","reason":"the model cannot be loaded: ' in capfd.readouterr().out


def test_an_error_that_may_be_temporary_allows_a_restart(
    minilm_folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "file").open("wb") as file, pytest.raises(OSError, match="non-socket"):
        run_engine(replace(spec(minilm_folder), accept_fd=file.fileno()))
    assert '"event":"failed"' in capfd.readouterr().out


def busy(spec: EngineSpec) -> Started:
    raise DeviceUnavailableError("device 'cuda' is not available: it is busy")


def test_a_device_that_is_busy_takes_one_line_and_allows_a_restart(
    minilm_folder: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_engine(spec(minilm_folder), busy)
    assert ended.value.code not in (0, EXIT_PERMANENT_FAILURE)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.message.endswith("is not available: it is busy") and not record.exc_info
    assert '"event":"failed"' in capfd.readouterr().out


@pytest.mark.full
@pytest.mark.parametrize("isa", [MAX_ISA, "none"])
def test_torch_is_imported_by_the_first_process_only_if_engines_need_it(
    minilm_folder: Path, tmp_path: Path, isa: str
) -> None:
    with Server(tmp_path / "log", isa=isa) as server:
        first, [http] = psutil.Process(server.process.pid), server.children(HTTP_PROCESS)
        needed = isa == "none" or library.best_isa("float32") is None
        assert _has_torch(first) == _has_torch(psutil.Process(server.engine)) == needed
        assert not _has_torch(http) and first.num_threads() == 1  # a fork copies no other threads


def _has_torch(process: psutil.Process) -> bool:
    return any("libtorch" in each.path for each in process.memory_maps())


@pytest.mark.full
def test_an_engine_that_is_a_program_ends_with_its_parent_though_it_hangs(
    minilm_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")  # with threads, the server forks none
    with Server(tmp_path / "log") as server:
        engine = psutil.Process(server.engine)
        assert "embedwell.launch.engine_process" in engine.cmdline()
        engine.suspend()
        server.process.kill()
        _, alive = psutil.wait_procs([engine], 60)
        assert not alive
