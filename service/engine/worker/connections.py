"""The engine's ends of its connections to HTTP processes, which come and go."""

import selectors
import socket
from collections.abc import Callable

from service.engine.protocol.fd_handoff import hand_over
from service.engine.protocol.wire import Message, WorkerConnection

GONE: Message = (["gone", None], b"")  # the last message of a connection

Mail = list[tuple[WorkerConnection, Message]]


class Connections:
    """Accepts connections, and sends the greeting on each."""

    def __init__(self, handoff: socket.socket, lifeline: int, greeting: Message) -> None:
        """handoff: the engine's end of it (see fd_handoff).

        lifeline: a descriptor whose end of file tells that the server is no more.
        """
        self._handoff, self._greeting = handoff, greeting
        self._selector = selectors.DefaultSelector()
        self._watch(handoff, self._give)
        self._watch(lifeline, _end)

    def receive(self, wait: bool) -> Mail:
        """The messages that have come on all connections; waits for one if told to.

        Raises EOFError when the server is no more.
        """
        ready = self._selector.select(None if wait else 0)
        return [messages for key, _ in ready for messages in key.data()]

    def close(self) -> None:
        """Close every connection."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket) and key.fileobj is not self._handoff:
                key.fileobj.close()
        self._selector.close()

    def _watch(self, source: socket.socket | int, act: Callable[[], Mail]) -> None:
        self._selector.register(source, selectors.EVENT_READ, act)

    def _give(self) -> Mail:
        end, running = hand_over(self._handoff)
        connection = WorkerConnection(end, running)
        self._watch(end, lambda: self._read(end, connection))
        connection.send(*self._greeting)
        return []

    def _read(self, end: socket.socket, connection: WorkerConnection) -> Mail:
        try:
            return [(connection, message) for message in connection.receive(wait=False)]
        except EOFError:
            self._selector.unregister(end)
            end.close()
            return [(connection, GONE)]


def _end() -> Mail:
    raise EOFError
