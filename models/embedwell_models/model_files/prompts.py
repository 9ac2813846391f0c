"""Prompts of a model: texts before other texts, or instructions."""

from embedwell_models.config.json_config import JsonConfig


def default_prompt(card: JsonConfig) -> str:
    """Return the default prompt of a model; "" for none.

    Raises ModelError for the name of a missing prompt.
    """
    if card.get("default_prompt_name") is None:
        return ""
    prompts: dict[str, str] = card.get("prompts", {})
    return card.choice("default_prompt_name", prompts)
