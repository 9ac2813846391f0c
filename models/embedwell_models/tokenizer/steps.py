"""Steps generators: work that the caller can pause or stop between steps."""

from collections.abc import Generator
from typing import TypeVar

R = TypeVar("R")

Steps = Generator[None, None, R]
"""Generator that yields after each step and returns the result of all steps."""


def run_to_completion(steps: Steps[R]) -> R:
    """Run all steps without a pause; return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
