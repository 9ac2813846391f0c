"""The shorter dimensions that a model was trained for (Matryoshka)."""

from collections.abc import Collection
from pathlib import Path

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError


def declared_dimensions(folder: Path, full: int) -> Collection[int]:
    """Return the dimensions that `config.json` declares (arXiv 2205.13147); empty if none.

    matryoshka_dimensions lists them; is_matryoshka alone allows any up to `full`. These are keys of
    published checkpoints, not of sentence-transformers. Raises ModelError for an invalid list.
    """
    path = folder / "config.json"
    options = JsonConfig.optional(path)  # static embeddings may lack it
    listed = options.get("matryoshka_dimensions")
    if listed is None:
        return range(1, full + 1) if options.get("is_matryoshka") is True else ()
    if not isinstance(listed, list) or not all(type(n) is int and 0 < n <= full for n in listed):
        raise ModelError(
            f"{path}: matryoshka_dimensions = {listed!r} is no list of numbers from 1 to {full}"
        )
    return sorted(listed)
