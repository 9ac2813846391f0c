"""Starts the engine process, watches it, restarts it, and gives jobs to the one that runs."""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import orjson

from service.engine.client import Client
from service.engine.messages import POOLED, REFUSED, Description, EngineSpec, Job, Result
from service.errors import EncodingFailed, EngineLost

log = logging.getLogger(__name__)

_BEAT = 1.0  # seconds between two proofs that the engine embeds
_FRESH = 5.0  # a proof older than this is none
_STALL = 60.0  # an engine that does not embed two tokens in this time hangs, and is killed
_STEADY = 30.0  # an engine that ran this long did not fail to start
# A thread that waits for another spins this often before it sleeps (GNU OpenMP). Its own choice of
# 300,000 makes a pass a hundred times slower when anything else wants the processors.
_PATIENCE = {"GOMP_SPINCOUNT": "3000"}
_CANARY = Job(POOLED, [np.zeros(2, dtype=np.int32)])


class Supervisor:
    """One engine process at a time; requests that wait when it dies fail with EngineLost."""

    def __init__(
        self,
        spec: EngineSpec,
        on_ready: Callable[[Description], None],
        on_refused: Callable[[], None],
        program: str = sys.executable,
    ) -> None:
        """on_refused: called when the engine says that starting it again would not help."""
        self._spec, self._on_ready, self._on_refused = spec, on_ready, on_refused
        self._program = program
        self._client: Client | None = None
        self._beat = 0.0
        self.rate = 0.0  # tokens per second; 0: not known yet
        self.description: Description | None = None
        self.restarts = 0

    @property
    def embeds(self) -> bool:
        """Whether the engine has just embedded something."""
        return time.monotonic() - self._beat < _FRESH

    async def submit(self, job: Job, timeout: float) -> Result:
        """The vectors of a job; raises EngineLost where no engine is ready, or TimeoutError."""
        if self._client is None:
            raise EngineLost("the model is not loaded yet; try again shortly", retry=2)
        result = await self._client.submit(job, timeout)
        self.rate = result.rate
        return result

    async def run(self) -> None:
        """Keep an engine running until cancelled."""
        delay = 0.1
        while True:
            started = time.monotonic()
            try:
                status = await self._life()
                what = f"the engine ended with status {status}"
            except OSError as error:
                # No process, memory or disk to be had: that passes, or an operator sees it here
                # and in /ready. To end the server would only move the same loop to its manager.
                status, what = None, f"the engine cannot be started: {error}"
            if status == REFUSED:
                self._on_refused()
                return
            delay = 0.1 if time.monotonic() - started > _STEADY else min(delay * 2, 10.0)
            log.error("%s; starting it again in %.1f s", what, delay)
            self.restarts += 1
            await asyncio.sleep(delay)

    async def _life(self) -> int:
        # A new line for each engine: the old one's jobs never reach its successor.
        ours, theirs = socket.socketpair()
        client = await Client.connect(ours)
        try:
            with theirs:
                process = await self._spawn(theirs.fileno())
            attending = asyncio.create_task(self._attend(client, process))
            try:
                return await process.wait()
            finally:
                self._client, self._beat = None, 0.0
                attending.cancel()
                client.close(EngineLost("the engine died; try again", retry=2))
                await _stop(process)
        finally:
            client.close(EngineLost("the engine did not start; try again", retry=2))

    async def _spawn(self, descriptor: int) -> Process:
        spec = orjson.dumps(replace(self._spec, descriptor=descriptor)).decode()
        return await asyncio.create_subprocess_exec(
            *(self._program, "-m", "service.engine", spec),
            stdin=DEVNULL,
            env={**_PATIENCE, **os.environ},
            pass_fds=[descriptor],
        )

    async def _attend(self, client: Client, process: Process) -> None:
        description = await client.describe()
        self._client = client
        while True:
            try:
                self.rate = (await client.submit(_CANARY, _STALL)).rate
            except TimeoutError:
                log.error("the engine has not embedded for %.0f s; killing it", _STALL)
                process.kill()
                return
            except EngineLost:
                return
            except EncodingFailed as error:
                log.error("the engine cannot embed: %s", error)
                await asyncio.sleep(_BEAT)
                continue
            self._beat = time.monotonic()
            if self.description is not description:
                self.description = description
                self._on_ready(description)
            await asyncio.sleep(_BEAT)


async def _stop(process: Process) -> None:
    """Wait until an engine has left, whose line was closed."""
    if process.returncode is not None:
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(5):
            await process.wait()
            return
    process.kill()
    await process.wait()
