"""What can be wrong with a model, its files or a request for it."""


class ModelError(Exception):
    """A model that cannot be found, fetched, verified or loaded; the message says what to do."""


class EmptyTextError(ValueError):
    """A text without a token, in a model that needs one. index: which text it is."""

    def __init__(self, index: int) -> None:
        super().__init__(f"text {index} has no tokens, and the model needs one")
        self.index = index


class UnsplittableTextError(ValueError):
    """A text that cannot be tokenised piece by piece."""

    def __init__(self, most: int) -> None:
        """most: characters that are read at once."""
        super().__init__(
            f"more than {most} characters in a row have no place where a token surely begins, "
            "such as a space between two words"
        )
