"""config_sentence_transformers.json, the card of a model: its kind, prompts and other options.

The smaller dimensions that a model was trained for (Matryoshka) are in its config.json.
"""

import os
from collections.abc import Collection
from pathlib import Path

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError

CARD = "config_sentence_transformers.json"
STANFORD_METADATA = "artifact.metadata"
"""File with the options of Stanford's ColBERT, as JSON."""

MULTI_VECTOR, _PYLATE = "MultiVectorEncoder", "ColBERT"
KINDS = ("SentenceTransformer", "CrossEncoder", "SparseEncoder", MULTI_VECTOR, _PYLATE)
_STANFORD = "HF_ColBERT"  # class in config.json


def read_kind(folder: Path, *supported: str) -> str:
    """Return the kind of a model, also without modules.json, where it says what is served.

    Raises ModelError for a kind that is not supported. supported: KINDS by default.
    """
    kinds = supported or KINDS
    return str(JsonConfig.optional(folder / CARD).require("model_type", *kinds))


def has_modules(folder: Path) -> bool:
    """Whether a folder has modules.json.

    Without it, sentence-transformers reads neither the card nor the options of the encoder.
    """
    return os.path.lexists(folder / "modules.json")


def read_card(folder: Path) -> JsonConfig:
    """Read the card of a folder; the options are empty without modules.json."""
    path = folder / CARD
    return JsonConfig.optional(path) if has_modules(folder) else JsonConfig(path, {})


def has_token_vectors(folder: Path, encoder: Path) -> bool:
    """Whether a folder has a multi-vector model of texts, see model_files.multi_vector.

    encoder: the folder with config.json.
    """
    if not has_modules(folder):
        return _STANFORD in JsonConfig.optional(encoder / "config.json").get("architectures", ())
    card = read_card(folder)
    return card.get("model_type", "") in (MULTI_VECTOR, _PYLATE) or has_prefixes(card)


def has_prefixes(card: JsonConfig) -> bool:
    """Whether a card names the prefixes of queries and documents, as PyLate's do."""
    return "query_prefix" in card or "document_prefix" in card


def read_prompts(card: JsonConfig) -> dict[str, str]:
    """Return the texts before a text by name. One that is null is empty: nothing precedes a text.

    Raises ModelError for other values.
    """
    stated = card.get("prompts", {})
    return {name: prompt or "" for name, prompt in stated.items()}


def default_prompt(card: JsonConfig) -> str:
    """Return the default prompt of a model; "" for none.

    Raises ModelError for the name of a missing prompt.
    """
    if card.get("default_prompt_name") is None:
        return ""
    return card.choice("default_prompt_name", read_prompts(card))


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
