"""Errors caused by a model, its files, or an input text or image."""

TORCH_MISSING = (
    "PyTorch is not installed: pip install torch (for a CPU alone, the small build: "
    "pip install torch --index-url https://download.pytorch.org/whl/cpu)"
)


class ModelError(Exception):
    """A model cannot be found, fetched, verified or loaded; the message says what to do."""


class DeviceUnavailableError(ModelError):
    """A device is busy, or its memory is full: the same load may succeed later."""


class InputError(ValueError):
    """An input, or an option of its reading, is wrong; the message says what to do.

    code: a short name of the reason. param: the option that is wrong; None if an input is.
    index: position of the input in the request.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "invalid_request",
        param: str | None = None,
        index: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.param, self.index = code, param, index


class TooManyTokensError(InputError):
    """The inputs have more tokens than a limit of the caller."""

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message, code="too_many_tokens", index=index)


class TooLongError(InputError):
    """An input is too long, and must not be cut off. length: what is too long, and what to do."""

    def __init__(self, length: str, index: int) -> None:
        super().__init__(f"{length}, or allow truncation", code="input_too_long", index=index)


class EmptyTextError(InputError):
    """A text has no token, but the model needs one. index: position in the request."""

    def __init__(self, index: int) -> None:
        super().__init__(
            f"input {index} has no tokens, but the model needs at least one; leave it out",
            code="no_input",
            index=index,
        )


class ImageError(ValueError):
    """An image cannot be read; the message says why, and is shown after 'the image:'."""


class ImageTokensError(ValueError):
    """The tokens of a text do not fit the images next to it; the message says why."""


class DimensionsError(ValueError):
    """Vectors cannot have the requested dimensions; the message says which they can have."""


class TooManyDimensionsError(DimensionsError):
    """More dimensions than the model has are requested."""


class UnsplittableTextError(InputError):
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
        message = self.problem if index is None else f"input {index}: {self.problem}"
        super().__init__(message, code="unbroken_text", index=index)

    def with_index(self, index: int) -> "UnsplittableTextError":
        """Return the error of the text at this position in the request."""
        return UnsplittableTextError(self.limit, index)


class UnpairedTextError(InputError):
    """A single text was given to a model that reads pairs. index: position in the request."""

    def __init__(self, index: int) -> None:
        message = f"text {index} is alone, and the model reads a query and a document"
        super().__init__(message, code="not_offered", index=index)


class InstructionTooLongError(InputError):
    """An instruction leaves too little room for texts."""

    def __init__(self) -> None:
        super().__init__(
            "the instruction takes more than half of the tokens that the model reads; shorten it",
            code="prompt_too_long",
            param="instruction",
        )


class PromptTooLongError(InputError):
    """A prompt leaves no room for a text. max_length: maximum tokens that the model reads."""

    def __init__(self, max_length: int) -> None:
        super().__init__(
            f"the prompt takes all of the {max_length} tokens that the model reads; shorten it",
            code="prompt_too_long",
            param="prompt",
        )
        self.max_length = max_length
