"""Smaller numbers of dimensions that a model was trained for (Matryoshka)."""

from collections.abc import Collection
from pathlib import Path

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError


def declared_dimensions(folder: Path, full: int, truncated: int | None = None) -> Collection[int]:
    """Return the dimensions that `config.json` declares (arXiv 2205.13147), or an empty list.

    The key matryoshka_dimensions or matryoshka_dims lists them; is_matryoshka without a list allows
    any number up to `full`. Published checkpoints use these keys; sentence-transformers does not.
    truncated: the dimensions of the model's vectors, if they are fewer than `full`.

    Raises ModelError for an invalid list.
    """
    most = full if truncated is None else truncated
    path = folder / "config.json"
    options = JsonConfig.optional(path)  # static embeddings may lack the file
    listed = options.get("matryoshka_dimensions", options.get("matryoshka_dims"))
    if listed is None:
        return range(1, most + 1) if options.get("is_matryoshka") is True else ()
    if not isinstance(listed, list) or not all(type(n) is int and 0 < n <= full for n in listed):
        raise ModelError(
            f"{path}: matryoshka_dimensions = {listed!r} must be a list of numbers from 1 to {full}"
        )
    return sorted(n for n in listed if n <= most)
