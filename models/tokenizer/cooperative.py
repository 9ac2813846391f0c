"""Work in steps: whoever asks for it may stop between two of them, or do something else."""

from collections.abc import Generator
from typing import TypeVar

R = TypeVar("R")

Steps = Generator[None, None, R]
"""Stops after each step; returns what all of them find."""


def finish(steps: Steps[R]) -> R:
    """What the steps find, one after the other."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
