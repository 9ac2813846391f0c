"""Panics of the Rust tokenizer, which Python sees as a BaseException that would end a process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedwell_models.errors import ModelError


class TokenizerPanicError(RuntimeError):
    """The tokenizer panicked: its file is broken in a way that shows only in some texts."""

    def __init__(self, panic: BaseException) -> None:
        super().__init__(f"the tokenizer cannot read a text, its file is broken: {panic}")


def without_panic(error: BaseException) -> BaseException:
    """Return a TokenizerPanicError for a panic, and any other error as it is."""
    # The class of panics cannot be imported: each Rust extension has its own.
    return TokenizerPanicError(error) if type(error).__name__ == "PanicException" else error


@contextmanager
def panics_as_model_errors(folder: Path) -> Iterator[None]:
    """Raise ModelError for a panic while the tokenizer of a folder is loaded."""
    try:
        yield
    except BaseException as error:
        panic = without_panic(error)
        if isinstance(panic, TokenizerPanicError):
            raise ModelError(f"{folder}: {panic}") from None
        raise
