"""Checkpoint families as data: what config.json says, and where the files keep what is needed."""

from collections.abc import Callable, Mapping
from pathlib import Path

from models.blueprint import Blueprint, Raw
from models.errors import ModelError
from models.families import bert, bloom, gemma, gpt2, gpt_neox, gptj, llama, modernbert, mpt, qwen

FAMILIES: Mapping[str, Callable[[Raw], Blueprint]] = {  # by model_type
    "bert": bert.read,
    "bloom": bloom.read,
    "gemma": gemma.read,
    "gemma2": gemma.gemma2,
    "gemma3_text": gemma.gemma3,
    "gpt2": gpt2.read,
    "gpt_neox": gpt_neox.read,
    "gptj": gptj.read,
    "llama": llama.read,
    "mistral": llama.mistral,
    "modernbert": modernbert.read,
    "mpt": mpt.read,
    "qwen2": qwen.read,
    "qwen3": qwen.qwen3,
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
