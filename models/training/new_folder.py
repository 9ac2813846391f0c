"""A folder that appears complete, or not at all."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import ModelError


def refuse_existing(target: Path) -> None:
    """Raise ModelError if a path exists."""
    if target.exists():
        raise ModelError(f"{target} exists already: delete it, or name another folder")


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield an empty folder, which becomes `target` if the block succeeds.

    Raises ModelError if `target` exists or cannot be written.
    """
    refuse_existing(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".train-") as name:
            scratch = Path(name) / target.name
            scratch.mkdir()
            yield scratch
            scratch.rename(target)
    except OSError as error:
        raise ModelError(f"{target} cannot be written: {error}") from None
