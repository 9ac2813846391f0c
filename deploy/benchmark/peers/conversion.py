"""Where the peers keep a model that they have converted."""

from pathlib import Path


def conversion_folder(cache: str, folder: str, *parts: str) -> Path:
    """The folder for what was converted, by model and by whatever else decides the result."""
    path = Path(cache) / "converted" / "-".join((Path(folder).name, *parts))
    path.mkdir(parents=True, exist_ok=True)
    return path
