"""Creation of a folder that appears only when it is complete."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from embedwell_models.errors import ModelError


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield an empty temporary folder that becomes `target` unless an error occurs.

    Raises ModelError if `target` exists, and OSError if it cannot be written.
    """
    if target.exists():
        raise ModelError(f"{target} exists already: delete it, or name another folder with -o")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".new-") as name:
        scratch = Path(name) / target.name
        scratch.mkdir()
        yield scratch
        scratch.rename(target)


def cached_folder(target: Path, write: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, which the first call creates.

    write: writes the contents into an empty folder. Raises ModelError if it cannot be written.
    """
    if not target.is_dir():
        try:
            with new_folder(target) as scratch:
                write(scratch)
        except OSError as error:
            if not target.is_dir():  # otherwise another process has just written the same
                raise ModelError(
                    f"{target} cannot be written: {error}; choose another folder with --cache"
                ) from None
    return target
