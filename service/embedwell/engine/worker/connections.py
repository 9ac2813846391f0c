"""Connections between the engine and the HTTP processes."""

import selectors
import socket
from collections.abc import Callable

from embedwell.engine.wire.engine_sockets import accept_connection
from embedwell.engine.wire.framing import HttpProcessConnection, Message

CLOSED: Message = (["closed", None], b"")  # the message that ends a connection

ReceivedMessages = list[tuple[HttpProcessConnection, Message]]


class Connections:
    """Accepts connections, and sends the greeting on each."""

    def __init__(self, handoff: socket.socket, shutdown_fd: int, greeting: Message) -> None:
        """handoff: the engine's end of the hand-off socket pair (see engine_sockets).

        shutdown_fd: a descriptor that reaches end of file when the server shuts down.
        """
        self._handoff, self._greeting = handoff, greeting
        self._selector = selectors.DefaultSelector()
        self._watch(handoff, self._accept)
        self._watch(shutdown_fd, _raise_shutdown)

    def receive(self, wait: bool) -> ReceivedMessages:
        """Receive messages of all connections; raises EOFError when the server shuts down.

        wait: block until there is a message.
        """
        ready = self._selector.select(None if wait else 0)
        return [messages for key, _ in ready for messages in key.data()]

    def close(self) -> None:
        """Close every connection."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket) and key.fileobj is not self._handoff:
                key.fileobj.close()
        self._selector.close()

    def _watch(self, source: socket.socket | int, handler: Callable[[], ReceivedMessages]) -> None:
        self._selector.register(source, selectors.EVENT_READ, handler)

    def _accept(self) -> ReceivedMessages:
        sock, running = accept_connection(self._handoff)
        connection = HttpProcessConnection(sock, running)
        self._watch(sock, lambda: self._read(sock, connection))
        connection.send(*self._greeting)
        return []

    def _read(self, sock: socket.socket, connection: HttpProcessConnection) -> ReceivedMessages:
        try:
            return [(connection, message) for message in connection.receive(wait=False)]
        except EOFError:
            self._selector.unregister(sock)
            sock.close()
            return [(connection, CLOSED)]


def _raise_shutdown() -> ReceivedMessages:
    raise EOFError
