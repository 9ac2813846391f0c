"""Write a file atomically, and find out before the work whether it can be written."""

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
    """A temporary file that replaces `path` at the end of the block, or is deleted if it fails.

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
        with suppress(OSError):  # buffered bytes no longer matter
            file.close()
        if not is_device:
            temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError into a ClickException that says why the file cannot be written."""
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror or error}") from None


def _replace(temporary: Path, target: Path) -> None:
    if target.exists():
        shutil.copymode(target, temporary)
    os.replace(temporary, target)
