"""Files with the chat templates of a model folder, and what reads them."""

import pkgutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.tokenizer.formats import PairFormat, TextFormat

FILE = "chat_template.jinja"
PROCESSOR_FILE = "chat_template.json"
"""File of a processor for several media, which has priority over the other files."""
NAMED = "additional_chat_templates"
TEXT_VARIABLES = {"add_generation_prompt": True}
"""Variables of the template in the code of Qwen3-VL's authors."""
_KEEPS_TEXTS = "embedwell_prompts.chat_templates:keeps_texts"
_READ_PAIRS = "embedwell_prompts.chat_templates:read_pair_format"
_READ_TEXTS = "embedwell_prompts.chat_templates:read_text_format"


def template_files(folder: Path) -> list[Path]:
    """Return the files of a folder that hold chat templates only."""
    return [
        *(path for path in [folder / FILE] if path.exists()),
        *sorted((folder / NAMED).glob("*.jinja")),
    ]


def has_template(folder: Path) -> bool:
    """Whether the tokenizer of a folder has a chat template."""
    options = JsonConfig.optional(folder / "tokenizer_config.json")
    return bool(template_files(folder)) or options.get("chat_template") not in (None, [])


def read_pair_format(
    folder: Path, variables: Mapping[str, Any], message_format: str | None, prompt: str
) -> PairFormat:
    """Read the format of pairs from the chat template of a folder.

    variables: variables of the template, and `chat_template`, the name of one of several templates.
    message_format: flat or structured messages; None to detect the format from the template.
    prompt: the default instruction; "" for the template's own.

    Raises ModelError for a template that cannot be rendered, or that lacks a query or a document.
    """
    read = pkgutil.resolve_name(_READ_PAIRS)
    pair_format: PairFormat = read(folder, variables, message_format, prompt)
    return pair_format


def read_text_format(
    folder: Path, variables: Mapping[str, Any], message_format: str | None
) -> TextFormat | None:
    """Read the format of texts from the chat template of a folder; return None without one.

    For the other arguments see read_pair_format.

    Raises ModelError for a template that cannot be rendered, or that changes or moves a text.
    """
    read = pkgutil.resolve_name(_READ_TEXTS)
    text_format: TextFormat | None = read(folder, variables, message_format)
    return text_format


def keeps_texts(folder: Path) -> bool:
    """Whether the chat template of a folder renders exactly the prompt followed by the text.

    Raises ModelError for a template that cannot be rendered.
    """
    keeps: bool = pkgutil.resolve_name(_KEEPS_TEXTS)(folder)
    return keeps
