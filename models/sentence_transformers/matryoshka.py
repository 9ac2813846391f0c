"""Which shorter lengths of its vectors a model was trained for."""

from collections.abc import Collection
from pathlib import Path

from models.config.json_config import JsonConfig
from models.errors import ModelError


def declared(folder: Path, full: int) -> Collection[int]:
    """The lengths that `config.json` declares, none if it is silent.

    matryoshka_dimensions lists them; is_matryoshka alone means any up to `full`: the keys that
    published checkpoints have (Matryoshka representation learning: arXiv 2205.13147).
    sentence-transformers itself writes nothing of it. Raises ModelError for a list that is none.
    """
    path = folder / "config.json"
    raw = JsonConfig.optional(path)  # static embeddings may have none
    listed = raw.get("matryoshka_dimensions")
    if listed is None:
        return range(1, full + 1) if raw.get("is_matryoshka") is True else ()
    if not isinstance(listed, list) or not all(type(n) is int and 0 < n <= full for n in listed):
        raise ModelError(
            f"{path}: matryoshka_dimensions = {listed!r} is no list of numbers from 1 to {full}"
        )
    return sorted(listed)
