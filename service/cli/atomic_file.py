"""The file that a command writes: opened before the work, and in its place when all is written."""

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
    """A file that gets the name when the block ends, and goes without a trace where it fails.

    A pipe or a device is written as it is. Raises ClickException for what cannot be written.
    """
    with writing(path):
        special = path.exists() and not path.is_file()
        whole = path if special else path.resolve()  # a link stays one
        part = whole if special else whole.with_name(f".{whole.name}.{secrets.token_hex(4)}")
        file = part.open("wb" if special else "xb")
    try:
        yield file
        with writing(path):
            file.close()
            if not special:
                _replace(part, whole)
    finally:
        with suppress(OSError):  # what is still to be written does not matter any more
            file.close()
        if not special:
            part.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises ClickException that says why a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror or error}") from None


def _replace(part: Path, whole: Path) -> None:
    if whole.exists():
        shutil.copymode(whole, part)
    os.replace(part, whole)
