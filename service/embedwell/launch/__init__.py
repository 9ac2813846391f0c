"""The processes of a server: how they start, stop, and are watched."""
