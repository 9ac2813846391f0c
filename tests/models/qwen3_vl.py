"""Qwen3-VL models of random weights, as they are published, with a tokenizer of bytes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import Qwen3VLForConditionalGeneration

from tests.models import kinds
from tests.models.families.checkpoint import Case, write
from tests.models.families.exact import exactly
from tests.models.model_files.options import NORMALIZE, POOLING, TRANSFORMER

MARKS = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
INSTRUCTION = "Represent the user's input."
# The parts of the published template that render texts and images.
TEMPLATE = """{%- macro parts(content) %}
    {%- if content is string %}{{- content }}
    {%- else %}{%- for part in content %}
        {%- if part.type == 'image' %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}
        {%- elif 'text' in part %}{{- part.text }}{%- endif %}
    {%- endfor %}{%- endif %}
{%- endmacro %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + parts(message.content) + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
# Its template of pairs, for the roles that sentence-transformers gives a query and a document.
PAIRS = """<|im_start|>system
Judge the Document by the Query and the Instruct. The answer can only be "yes" or "no".<|im_end|>
<|im_start|>user
{%- macro text(role) %}{%- for message in messages if message.role == role %}
{{- message.content is string and message.content or message.content[0].text }}
{%- endfor %}{%- endmacro %}
<Instruct>: {{ text("system") }}<Query>:{{ text("query") }}
<Document>:{{ text("document") }}<|im_end|>
{%- if add_generation_prompt %}

<|im_start|>assistant
{% endif %}"""
SIZES: dict[str, Any] = {
    **{"hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 96, "head_dim": 16},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 0.05},
    "rope_parameters": {
        **{"rope_type": "default", "rope_theta": 5e6},
        **{"mrope_section": [4, 2, 2], "mrope_interleaved": True},
    },
}
# Sizes that the kernels compute; those above are torch's.
OF_KERNELS: dict[str, Any] = {
    **{"head_dim": 32, "intermediate_size": 128},
    "rope_parameters": {**SIZES["rope_parameters"], "mrope_section": [6, 5, 5]},
}
VISION: dict[str, Any] = {
    **{"depth": 2, "hidden_size": 64, "num_heads": 2, "intermediate_size": 48},
    **{"out_hidden_size": 64, "deepstack_visual_indexes": [0, 1], "num_position_embeddings": 16},
}
# The published file, with smaller limits.
PROCESSOR: dict[str, Any] = {
    "image_processor_type": "Qwen2VLImageProcessorFast",
    "size": {"shortest_edge": 4096, "longest_edge": 40_000},
    **{"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2},
    **{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]},
    "processor_class": "Qwen3VLProcessor",
}
METHOD = {"method": "forward", "method_output_name": "last_hidden_state"}
MESSAGE = {**METHOD, "format": "structured"}
CHAT = {"chat_template": {"add_generation_prompt": True}}


def whole(**text: Any) -> dict[str, Any]:
    """The sizes of a model with an encoder of images."""
    return {"text_config": {"vocab_size": 99, **SIZES, **text}, "vision_config": VISION}


def write_model(
    folder: Path,
    *,
    tied: bool = False,
    image_token_id: int = 90,
    vision: Mapping[str, Any] = VISION,
    **text: Any,
) -> Any:
    """Save a model of texts and images, with the names of tensors that are published."""
    sizes = {**whole(**text), "tie_word_embeddings": tied, "image_token_id": image_token_id}
    sizes["vision_config"] = vision
    return write(Case("qwen3_vl", {}, sizes, model=Qwen3VLForConditionalGeneration), folder)


def write_qwen3_vl(
    folder: Path,
    *,
    template: str = TEMPLATE,
    max_length: int = 128,
    ends: bool = True,
    tied: bool = False,
    **text: Any,
) -> Any:
    """Save a model, and a tokenizer with a chat template next to it.

    ends: whether the tokenizer puts its token of a text's end after each.
    """
    rust = kinds.qwen()
    rust.add_special_tokens(MARKS)
    rust.add_tokens(["yes", "no"])
    if not ends:
        rust.post_processor = None
    folder.mkdir(exist_ok=True)
    rust.save(str(folder / "tokenizer.json"))
    options = {"model_max_length": max_length, "pad_token": "<|endoftext|>"}
    save(folder, "tokenizer_config.json", {**options, "eos_token": "<|im_end|>"})
    save(folder, "chat_template.json", {"chat_template": template})
    image, size = rust.token_to_id("<|image_pad|>"), rust.get_vocab_size() + 3
    assert image is not None
    return write_model(folder, tied=tied, image_token_id=image, vocab_size=size, **text)


def write_layout(folder: Path, card: dict[str, Any] | None = None, **options: Any) -> None:
    """Add the files that sentence-transformers writes; a chat template where it looks for it."""
    (folder / "1_Pooling").mkdir()
    save(folder, "modules.json", [TRANSFORMER, POOLING, NORMALIZE])
    save(folder, "1_Pooling/config.json", {"pooling_mode": "lasttoken", "embedding_dimension": 64})
    save(folder, "config_sentence_transformers.json", card or {})
    modalities = {"text": METHOD, "image": METHOD, "message": MESSAGE}
    layout: dict[str, Any] = {"modality_config": modalities, "processing_kwargs": CHAT}
    layout |= {"module_output_name": "token_embeddings"}
    save(folder, "sentence_bert_config.json", {**layout, **options})


def write_processor(folder: Path) -> None:
    """Add a processor of texts and images, by which sentence-transformers applies the template.

    That of Qwen3-VL needs torchvision; this one treats a text alike.
    """
    image = {"image_token": "<|image_pad|>", "patch_size": 16}
    save(folder, "processor_config.json", {"processor_class": "LlavaProcessor", **image})
    save(folder, "preprocessor_config.json", {"image_processor_type": "CLIPImageProcessor"})


def save(folder: Path, name: str, content: Any) -> None:
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def rendered(text: str, instruction: str = INSTRUCTION) -> str:
    """A text as the authors' Qwen3VLEmbedder renders it."""
    return (
        f"<|im_start|>system\n{instruction}<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def tokenized(folder: Path, text: str) -> list[int]:
    """The ids of a rendered text, as their processor has them."""
    ids: list[int] = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids
    return ids


@exactly
def last_states(model: Any, rows: list[list[int]]) -> Tensor:
    """The normalised state of the last token of each row: (B, D)."""
    states = [model.model(input_ids=torch.tensor([row])).last_hidden_state[0, -1] for row in rows]
    return torch.nn.functional.normalize(torch.stack(states))
