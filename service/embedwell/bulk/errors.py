"""The error of a bulk run."""


class BulkError(Exception):
    """A run cannot start or continue; the message says how to fix it."""
