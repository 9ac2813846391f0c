"""The watch over the engine process, with programs of the tests' own as engines."""

import asyncio
import logging
import stat
from pathlib import Path

import pytest

from service.engine.messages import EngineSpec
from service.engine.supervisor import Supervisor

SPEC = EngineSpec(
    folder="",
    device="cpu",
    dtype="float32",
    threads=1,
    max_batch_tokens=8,
    log_level="info",
)


def test_an_engine_that_cannot_be_spawned_is_tried_again_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "python"
    refused = asyncio.Event()

    async def run() -> None:
        supervisor = Supervisor(SPEC, lambda _: None, refused.set, program=str(program))
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(20):
            while supervisor.restarts < 2:
                assert not running.done(), "the watch has ended"
                await asyncio.sleep(0.01)
            program.write_text("#!/bin/sh\nexit 3\n")
            program.chmod(stat.S_IRWXU)
            await refused.wait()
            await running

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "the engine cannot be started: [Errno 2]" in caplog.text
