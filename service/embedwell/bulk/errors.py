"""The error of a run."""


class BulkError(Exception):
    """A run that cannot start or go on; the message says what to do."""
