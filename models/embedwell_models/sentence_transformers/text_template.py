"""Chat templates of models that embed texts: what is around a text, with an instruction or none.

sentence-transformers gives such a template a message of the role user, and before it one of the
role system with the prompt, which is an instruction here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedwell_models.errors import ModelError
from embedwell_models.sentence_transformers import chat_template
from embedwell_models.tokenizer.text_format import TextFormat

INSTRUCTIONS: Mapping[str, str] = {"qwen3_vl": "Represent the user's input."}
"""By family of models that read texts so: the instruction if the files have none.

That of their authors' code, github.com/QwenLM/Qwen3-VL-Embedding.
"""
VARIABLES = {"add_generation_prompt": True}
"""Those of that code."""
# Characters without a meaning, between white space that a template has to keep.
_TEXT, _INSTRUCTION = " \n\ue001\n ", " \n\ue002\n "


def read_text_format(
    folder: Path, variables: Mapping[str, Any], message_format: str | None
) -> TextFormat | None:
    """Read the format of texts from the chat template of a folder; None without one.

    For the other arguments see chat_template.read_pair_format.

    Raises ModelError for a template that cannot be rendered, or changes or moves a text.
    """
    template = chat_template.read_processor_template(folder, variables, message_format)
    if template is None:
        return None
    plain, after = _parts(folder, template.render({"user": _TEXT}), _TEXT)
    *instructed, after_both = _parts(
        folder, template.render({"system": _INSTRUCTION, "user": _TEXT}), _INSTRUCTION, _TEXT
    )
    if after != after_both:
        raise ModelError(f"{folder}: in the chat template, an instruction changes what is after it")
    return TextFormat(plain, (instructed[0], instructed[1]), after)


def _parts(folder: Path, rendered: str, *texts: str) -> list[str]:
    """Split what a template rendered at texts, each of which it has to have once, in order."""
    parts = []
    for text in texts:
        if rendered.count(text.strip()) != 1 or text not in rendered:
            raise ModelError(
                f"{folder}: the chat template does not tell how a text is read: it has to keep the "
                "message of the role user, and before it that of the role system, as they are"
            )
        part, _, rendered = rendered.partition(text)
        parts.append(part)
    return [*parts, rendered]
