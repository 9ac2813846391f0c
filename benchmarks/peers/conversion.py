"""Folder in which peers store converted models."""

from pathlib import Path


def conversion_folder(cache: str, folder: str, *parts: str) -> Path:
    """Return the folder of a converted model, by the model and other inputs of the conversion."""
    path = Path(cache) / "converted" / "-".join((Path(folder).name, *parts))
    path.mkdir(parents=True, exist_ok=True)
    return path
