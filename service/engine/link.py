"""An HTTP process's link to whichever engine runs."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable

import numpy as np

from service.board import Board
from service.engine.client import Client
from service.engine.messages import POOLED, Description, Job, Result
from service.engine.rate import Rate
from service.errors import EncodingFailed, EngineLost

log = logging.getLogger(__name__)

_BEAT = 1.0  # seconds between two proofs that an idle engine embeds
_FRESH = 5.0  # a proof older than this is none


class Link:
    """Gives jobs to the engine; those that wait when it dies fail with EngineLost."""

    def __init__(
        self,
        ask: Callable[[], socket.socket],
        board: Board,
        on_ready: Callable[[Description], None] = lambda _: None,
        on_stall: Callable[[], None] = lambda: None,
        stall: float = 60.0,
    ) -> None:
        """ask: for an end of a line to the engine; may raise OSError. board: where all count.

        on_ready: called when an engine embeds for the first time. on_stall: when it hangs, which is
        to embed nothing for so many seconds.
        """
        self._ask, self._on_ready, self._on_stall = ask, on_ready, on_stall
        self.board, self._restarts = board, board.take()
        self._client: Client | None = None
        self._stall = stall
        self._beat = 0.0
        self.rate = Rate()
        self.description: Description | None = None

    @property
    def embeds(self) -> bool:
        """Whether the engine has just embedded something."""
        return time.monotonic() - self._beat < _FRESH

    @property
    def restarts(self) -> int:
        """How often an engine was started again."""
        return int(self.board.total(self._restarts))

    def restarted(self) -> None:
        """Called by whoever starts another engine."""
        self.board.row[self._restarts] += 1

    async def submit(self, job: Job, timeout: float) -> Result:
        """The vectors of a job; raises EngineLost where no engine is ready, or TimeoutError."""
        if self._client is None:
            raise EngineLost("the model is not loaded yet; try again shortly", retry=2)
        return await self._answer(self._client, job, timeout)

    def load(self, job: Job) -> int:
        """Tokens that are computed for a job: all."""
        return job.tokens

    async def run(self) -> None:
        """Attend to one engine after the other until cancelled."""
        while True:
            try:
                client = await Client.connect(self._ask())
            except OSError as error:  # no descriptor is free, say: that passes
                log.error("there is no line to the engine: %s", error)
                await asyncio.sleep(_BEAT)
            else:
                await self._attend(client)

    async def _attend(self, client: Client) -> None:
        try:
            await self._watch(client)
        except EngineLost:
            pass
        finally:
            self._client, self._beat = None, 0.0
            client.close(EngineLost("the engine died; try again", retry=2))

    async def _watch(self, client: Client) -> None:
        description = await client.describe()
        self._client, self.description, self.rate = client, description, Rate()
        greeted = False
        while True:
            try:
                await self._answer(client, Job(POOLED, [np.zeros(2, dtype=np.int32)]), self._stall)
            except TimeoutError:
                if not self.embeds:  # else it is only busy
                    log.error("the engine has not embedded for %.0f s", self._stall)
                    self._on_stall()
            except EncodingFailed as error:
                log.error("the engine cannot embed: %s", error)
            else:
                if not greeted:
                    self._on_ready(description)
                greeted = True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(client.lost.wait(), _BEAT)

    async def _answer(self, client: Client, job: Job, timeout: float) -> Result:
        result = await client.submit(job, timeout)
        self.rate.note(result.rate)
        self._beat = time.monotonic()
        return result
