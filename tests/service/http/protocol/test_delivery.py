"""Unread responses."""

import asyncio
import socket

from embedwell.http.protocol.delivery import UnreadResponse
from embedwell.http.timeouts import Timeouts


class SlowTransport(asyncio.Transport):
    """A write buffer of which the client reads some bytes whenever its size is read.

    The kernel buffers nothing.
    """

    def __init__(self, unread: int, reads: int) -> None:
        super().__init__({"socket": socket.socket()})
        self.unread, self.reads, self.aborted = unread, reads, asyncio.Event()

    def get_write_buffer_size(self) -> int:
        self.unread = max(self.unread - self.reads, 0)
        return self.unread

    def abort(self) -> None:
        self.get_extra_info("socket").close()
        self.aborted.set()


def bytes_unread_at_abort(transport: SlowTransport) -> int:
    """The number of unread bytes of a response when it is aborted."""

    async def run() -> int:
        UnreadResponse(transport, Timeouts(0.05)).begin()
        await asyncio.wait_for(transport.aborted.wait(), 120)
        return transport.unread

    return asyncio.run(run())


def test_a_response_of_which_nothing_is_read_in_time_is_aborted() -> None:
    assert bytes_unread_at_abort(SlowTransport(1000, reads=0)) == 1000


def test_reading_part_of_a_response_restarts_the_timeout() -> None:
    assert bytes_unread_at_abort(SlowTransport(1000, reads=100)) == 0
