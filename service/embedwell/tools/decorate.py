"""Apply several decorators, such as the options of a command."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def decorate(command: F, *decorators: Callable[[F], F]) -> F:
    """Decorate a command, the first decorator outermost, so that --help lists options in order."""
    for decorator in reversed(decorators):
        command = decorator(command)
    return command
