"""Folders in the cache that consist of links to the files of several models."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from embedwell_models.checkpoint.new_folder import cached_folder


def linked_folder(
    parent: Path, name: str, links: Mapping[str, Path], written: Mapping[str, str] | None = None
) -> Path:
    """Return a folder with these links, which the first call creates.

    parent: its folder. name: the beginning of its name. links: path inside it -> the file that the
    link is to. written: texts of files in place of some links. Raises ModelError if it cannot be
    written.
    """
    texts = written or {}
    content = repr(sorted(links.items())) + "".join(texts.values())
    key = hashlib.sha256(content.encode()).hexdigest()[:16]

    def write(folder: Path) -> None:
        for path, source in links.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            if path in texts:
                (folder / path).write_text(texts[path], encoding="utf-8")
            else:
                (folder / path).symlink_to(source)

    return cached_folder(parent / f"{name}-{key}", write)
