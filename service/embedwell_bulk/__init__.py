"""Embed more texts than fit into memory, from files into a folder of parts."""


class BulkError(Exception):
    """A run cannot start or continue; the message says how to fix it."""
