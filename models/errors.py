"""What can be wrong with a model, its files or a request for it."""


class ModelError(Exception):
    """A model that cannot be found, fetched, verified or loaded; the message says what to do."""
