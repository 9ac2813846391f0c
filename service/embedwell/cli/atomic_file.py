"""Write files atomically, and check before the work whether they can be written."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import click


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file that replaces `path` at the end, or is deleted at an exception.

    A pipe or a device is written directly. Raises ClickException if `path` cannot be written.
    """
    with writing(path):
        is_device = path.exists() and not path.is_file()
        target = path if is_device else path.resolve()  # a link is kept
        temporary = (
            target if is_device else target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        )
        file = temporary.open("wb" if is_device else "xb")
    try:
        yield file
        with writing(path):
            file.close()
            if not is_device:
                _replace(temporary, target)
    finally:
        with suppress(OSError):  # buffered bytes are not needed any more
            file.close()
        if not is_device:
            temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert an OSError to a ClickException with the reason why the file cannot be written."""
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror or error}") from None


def _replace(temporary: Path, target: Path) -> None:
    if target.exists():
        shutil.copymode(target, temporary)
    os.replace(temporary, target)
