"""Checkpoint families as data: what config.json says, and where the files keep what is needed."""

from collections.abc import Callable, Mapping
from pathlib import Path

from models.blueprint import Blueprint, Raw
from models.errors import ModelError
from models.families import bert, clip, deberta, llama, modernbert, t5, xlnet

FAMILIES: Mapping[str, Callable[[Raw], Blueprint]] = {  # by model_type
    "bert": bert.read,
    "clip": clip.whole,
    "clip_text_model": clip.read,
    "deberta-v2": deberta.read,
    "llama": llama.read,
    "mistral": llama.read,
    "modernbert": modernbert.read,
    "mt5": t5.read,
    "t5": t5.read,
    "xlnet": xlnet.read,
}


def read(folder: Path) -> Blueprint:
    """What a model folder's config.json says.

    Raises ModelError on an unknown family or an option that is not implemented, by its name.
    """
    raw = Raw(folder / "config.json")
    name = raw.get("model_type", "")
    if name not in FAMILIES:
        raise ModelError(
            f"{folder}: model_type {name!r} is not supported; supported: {sorted(FAMILIES)}"
        )
    return FAMILIES[name](raw)
