"""Errors caused by a model, its files, or an input text or image."""

TORCH_MISSING = (
    "PyTorch is not installed: pip install torch (for a CPU alone, the small build: "
    "pip install torch --index-url https://download.pytorch.org/whl/cpu)"
)


class ModelError(Exception):
    """A model cannot be found, fetched, verified or loaded; the message says what to do."""


class EmptyTextError(ValueError):
    """A text has no token, but the model needs one. index: position in the request."""

    def __init__(self, index: int) -> None:
        super().__init__(f"text {index} has no tokens, and the model needs one")
        self.index = index


class ImageError(ValueError):
    """An image cannot be read; the message says why, and is shown after 'the image:'."""


class ImageTokensError(ValueError):
    """The tokens of a text do not fit the images beside it; the message says why."""


class DimensionsError(ValueError):
    """Vectors cannot have the requested dimensions; the message says which they can have."""


class TooManyDimensionsError(DimensionsError):
    """More dimensions than the model has are requested."""


class UnsplittableTextError(ValueError):
    """A long text cannot be tokenised piece by piece. problem: the message without the index."""

    def __init__(self, limit: int, index: int | None = None) -> None:
        """limit: maximum number of characters that are tokenised at once.

        index: position of the text, if there are several.
        """
        self.limit = limit
        self.problem = (
            f"more than {limit} characters in a row have no place where a token surely begins, "
            "such as a space between two words; shorten or divide the text"
        )
        super().__init__(self.problem if index is None else f"text {index}: {self.problem}")


class UnpairedTextError(ValueError):
    """A single text was given to a model that reads pairs. index: position in the request."""

    def __init__(self, index: int) -> None:
        super().__init__(f"text {index} is alone, and the model reads a query and a document")
        self.index = index


class InstructionTooLongError(ValueError):
    """An instruction leaves too little room for texts."""

    def __init__(self) -> None:
        super().__init__("the instruction takes more than half of the tokens that the model reads")


class PromptTooLongError(ValueError):
    """A prompt leaves no room for a text. max_length: maximum tokens that the model reads."""

    def __init__(self, max_length: int) -> None:
        super().__init__(f"the prompt takes the {max_length} tokens that the model reads")
        self.max_length = max_length
