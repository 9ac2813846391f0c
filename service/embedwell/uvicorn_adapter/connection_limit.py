"""Admit connections up to a limit, in place of those that wait for their client."""

from collections import OrderedDict
from typing import Protocol


class LimitedConnection(Protocol):
    """A connection that may be closed in favour of another."""

    def waits_for_client(self) -> bool:
        """Whether a request is incomplete, or a response is not read."""

    def abort(self) -> None:
        """Close the connection at once."""


class ConnectionLimit:
    """The open connections, with a limit on their number."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._connections: OrderedDict[LimitedConnection, None] = OrderedDict()  # the latest last

    def admit(self, new: LimitedConnection) -> bool:
        """Add a connection; beyond the limit close the one that waits for its client longest.

        Returns False if none waits: the new one is one too many.
        """
        waiting = None
        if len(self._connections) >= self._limit:
            waiting = next((other for other in self._connections if other.waits_for_client()), None)
            if waiting is None:
                return False
            self.remove(waiting)
            waiting.abort()
        self._connections[new] = None
        return True

    def note_activity(self, connection: LimitedConnection) -> None:
        """Note that the client has sent something, or has been sent something."""
        if connection in self._connections:
            self._connections.move_to_end(connection)

    def remove(self, connection: LimitedConnection) -> None:
        """Forget a connection that is closed, or was not admitted."""
        self._connections.pop(connection, None)
