"""Messages, sockets and shared memory between the HTTP processes and the engine process."""
