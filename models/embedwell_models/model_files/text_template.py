"""Chat templates of models that embed texts: the text around a text and its instruction.

sentence-transformers passes a message with the role user to such a template, and before it the
prompt, which is an instruction here, as a message with the role system.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedwell_models.errors import ModelError
from embedwell_models.families import jina_v4
from embedwell_models.model_files import chat_template
from embedwell_models.tokenizer.formats import TextFormat

VARIABLES = {"add_generation_prompt": True}
"""Variables of the template in the code of Qwen3-VL's authors."""
FORMATS: Mapping[str, TextFormat] = {
    "gme": TextFormat(  # from gme_inference.py beside the weights of GME
        plain="<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n",
        instructed=("<|im_start|>system\n", "<|im_end|>\n<|im_start|>user\n"),
        after="<|im_end|>\n<|im_start|>assistant\n<|endoftext|>",
        image="<|vision_start|><|image_pad|><|vision_end|>",
    ),
    "biqwen": TextFormat(  # from colpali-engine 0.3.10
        plain="",
        instructed=("", ""),
        after="<|endoftext|>",
        image="<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image."
        "<|im_end|>",
        instructs_images=False,
    ),
    "jina_v4": TextFormat(  # from the code beside the weights of Jina v4
        plain="",
        instructed=("", ""),
        after="",
        image=jina_v4.PAGE,
        instructs_images=False,
        single_images=True,
    ),
}
"""Formats of texts in the code of a model's authors."""
# Private-use characters, between white space that a template must keep.
_TEXT, _INSTRUCTION = " \n\ue001\n ", " \n\ue002\n "


def read_text_format(
    folder: Path, variables: Mapping[str, Any], message_format: str | None
) -> TextFormat | None:
    """Read the format of texts from the chat template of a folder; return None without one.

    For the other arguments see chat_template.read_pair_format.

    Raises ModelError for a template that cannot be rendered, or that changes or moves a text.
    """
    template = chat_template.read_processor_template(folder, variables, message_format)
    if template is None:
        return None
    plain, after = _parts(folder, template.render({"user": _TEXT}), _TEXT)
    *instructed, after_both = _parts(
        folder, template.render({"system": _INSTRUCTION, "user": _TEXT}), _INSTRUCTION, _TEXT
    )
    if after != after_both:
        raise ModelError(
            f"{folder}: in its chat template, an instruction changes the text after it"
        )
    image = _image(template, plain, after)
    return TextFormat(plain, (instructed[0], instructed[1]), after, image)


def _image(template: chat_template.Template, plain: str, after: str) -> str:
    """Return the text of an image between two texts; "" if the template has no images.

    plain, after: the text around a text.
    """
    texts = [{"type": "text", "text": text} for text in (_TEXT, _INSTRUCTION)]
    try:
        rendered = template.render({"user": [texts[0], {"type": "image"}, texts[1]]})
    except ModelError:
        return ""
    before, behind = plain + _TEXT, _INSTRUCTION + after
    if not (rendered.startswith(before) and rendered.endswith(behind)):
        return ""
    return rendered[len(before) : len(rendered) - len(behind)]


def _parts(folder: Path, rendered: str, *texts: str) -> list[str]:
    """Split the rendered template at texts; each text must occur once, in order."""
    parts = []
    for text in texts:
        if rendered.count(text.strip()) != 1 or text not in rendered:
            raise ModelError(
                f"{folder}: the chat template cannot format a text: it must keep the "
                "message of the role user, and before it that of the role system, as they are"
            )
        part, _, rendered = rendered.partition(text)
        parts.append(part)
    return [*parts, rendered]
