"""Creation of a folder that appears only when it is complete."""

import tempfile
from collections.abc import Iterator
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
