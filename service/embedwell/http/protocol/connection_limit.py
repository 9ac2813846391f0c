"""Limit the number of connections; a new one replaces one that waits for its client."""

from collections import OrderedDict
from typing import Protocol


class LimitedConnection(Protocol):
    """A connection that may be closed to make room for another."""

    def waits_for_client(self) -> bool:
        """Whether a request is incomplete, or a response is not read."""

    def abort(self) -> None:
        """Close the connection immediately."""


class ConnectionLimit:
    """The open connections, limited in number."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._connections = OrderedDict[LimitedConnection, None]()  # the most recently active last

    def admit(self, new: LimitedConnection) -> bool:
        """Add a connection; at the limit, close the connection that waits for its client longest.

        Returns False if no connection waits, so that the new one exceeds the limit.
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
        """Record that the client has sent or received something."""
        if connection in self._connections:
            self._connections.move_to_end(connection)

    def remove(self, connection: LimitedConnection) -> None:
        """Remove a connection that is closed or was not admitted."""
        self._connections.pop(connection, None)
