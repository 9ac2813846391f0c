"""The engine process, and the connections on which HTTP processes send it jobs."""
