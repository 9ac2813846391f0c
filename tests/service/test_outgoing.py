"""What leaves together."""

import asyncio
from collections.abc import Iterable

from service.outgoing import Gathered


class Pipe(asyncio.Transport):
    """Remembers what is sent at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False

    def writelines(self, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        assert not self.closed
        self.sent.append(b"".join(parts))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True


def test_what_is_written_in_one_turn_is_sent_together() -> None:
    async def run() -> None:
        pipe = Pipe()
        gathered = Gathered(pipe, asyncio.get_running_loop())
        gathered.write(b"head ")
        gathered.write(b"body")
        assert pipe.sent == []
        await asyncio.sleep(0)
        gathered.write(b"more")
        await asyncio.sleep(0)
        assert pipe.sent == [b"head body", b"more"]

    asyncio.run(run())


def test_closing_sends_what_is_held_and_nothing_after() -> None:
    async def run() -> None:
        pipe = Pipe()
        gathered = Gathered(pipe, asyncio.get_running_loop())
        gathered.write(b"last")
        gathered.close()
        gathered.write(b"late")
        await asyncio.sleep(0)
        assert pipe.closed and pipe.sent == [b"last"]

    asyncio.run(run())
