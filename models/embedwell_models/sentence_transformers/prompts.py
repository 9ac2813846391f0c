"""Prompts of a model: texts that are put before others, or instructions."""

from embedwell_models.config.json_config import JsonConfig


def default_prompt(card: JsonConfig) -> str:
    """Return the prompt that the card of a model names as its default; "" for none.

    Raises ModelError for a name that it does not have.
    """
    if card.get("default_prompt_name") is None:
        return ""
    prompts: dict[str, str] = card.get("prompts", {})
    return card.choice("default_prompt_name", prompts)
