"""The HTTP process's side of the engine: connection, replay, quarantine."""
