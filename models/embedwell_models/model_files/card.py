"""config_sentence_transformers.json, the card of a model: its kind, prompts and other options."""

from pathlib import Path

from embedwell_models.config.json_config import JsonConfig

CARD = "config_sentence_transformers.json"

KINDS = (
    *("SentenceTransformer", "CrossEncoder", "SparseEncoder", "MultiVectorEncoder"),
    "ColBERT",  # of PyLate
)


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
    return (folder / "modules.json").exists()


def read_card(folder: Path) -> JsonConfig:
    """Read the card of a folder; the options are empty without modules.json."""
    path = folder / CARD
    return JsonConfig.optional(path) if has_modules(folder) else JsonConfig(path, {})


def default_prompt(card: JsonConfig) -> str:
    """Return the default prompt of a model; "" for none.

    Raises ModelError for the name of a missing prompt.
    """
    if card.get("default_prompt_name") is None:
        return ""
    prompts: dict[str, str] = card.get("prompts", {})
    return card.choice("default_prompt_name", prompts)
