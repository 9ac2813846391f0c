"""Folders in the cache that consist of links to the files of several models."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from embedwell_models.checkpoint.new_folder import new_folder
from embedwell_models.errors import ModelError


def linked_folder(parent: Path, name: str, links: Mapping[str, Path]) -> Path:
    """Return a folder with these links, which the first call creates.

    parent: its folder. name: the beginning of its name. links: path inside it -> the file that the
    link is to. Raises ModelError if it cannot be written.
    """
    key = hashlib.sha256(repr(sorted(links.items())).encode()).hexdigest()[:16]
    target = parent / f"{name}-{key}"
    if not target.is_dir():
        try:
            with new_folder(target) as scratch:
                for path, source in links.items():
                    (scratch / path).parent.mkdir(parents=True, exist_ok=True)
                    (scratch / path).symlink_to(source)
        except OSError as error:
            if not target.is_dir():  # otherwise another process has just put the same links there
                raise ModelError(
                    f"{target} cannot be written: {error}; set a cache folder"
                ) from None
    return target
