"""The engine's end of its lines: any number of HTTP processes, that come and go."""

import selectors
import socket
from collections.abc import Callable

from service.engine.protocol.fd_handoff import give
from service.engine.protocol.wire import Line, Message

GONE: Message = (["gone", None], b"")  # the last message of a line

Mail = list[tuple[Line, Message]]


class Lines:
    """Whoever asks gets a line, and is told the greeting first."""

    def __init__(self, exchange: socket.socket, lifeline: int, greeting: Message) -> None:
        """exchange: the engine's end of it (see service.engine.protocol.fd_handoff).

        lifeline: a descriptor whose end of file tells that the server is no more.
        """
        self._exchange, self._greeting = exchange, greeting
        self._selector = selectors.DefaultSelector()
        self._watch(exchange, self._give)
        self._watch(lifeline, _end)

    def receive(self, wait: bool) -> Mail:
        """What has come on all lines; waits for something if told to.

        Raises EOFError when the server is no more.
        """
        ready = self._selector.select(None if wait else 0)
        return [mail for key, _ in ready for mail in key.data()]

    def close(self) -> None:
        """End every line."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket) and key.fileobj is not self._exchange:
                key.fileobj.close()
        self._selector.close()

    def _watch(self, source: socket.socket | int, act: Callable[[], Mail]) -> None:
        self._selector.register(source, selectors.EVENT_READ, act)

    def _give(self) -> Mail:
        end, running = give(self._exchange)
        line = Line(end, running)
        self._watch(end, lambda: self._read(end, line))
        line.send(*self._greeting)
        return []

    def _read(self, end: socket.socket, line: Line) -> Mail:
        try:
            return [(line, message) for message in line.receive(wait=False)]
        except EOFError:
            self._selector.unregister(end)
            end.close()
            return [(line, GONE)]


def _end() -> Mail:
    raise EOFError
