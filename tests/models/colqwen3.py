"""ColQwen3 of random weights, as each of its authors publishes it, with a tokenizer of bytes.

The vectors are computed by the steps of the authors' code, on the Qwen3-VL of transformers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

from tests.models.families.exact import exactly
from tests.models.families.files import edit, rename
from tests.models.page_models import NAME, head_tensors, projected, random_projection
from tests.models.qwen2_vl import states_of_page
from tests.models.qwen3_vl import PROCESSOR, TEMPLATE, save, write_qwen3_vl

AREA = 32**2
SIZE = PROCESSOR["size"]
_IMAGE = {"type": "image"}
_AROUND = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image."
_TEN = "<|endoftext|>" * 10


@dataclass(frozen=True)
class Publication:
    """The format of an author.

    config: keys of config.json. prefix: of the names of tensors, in place of `model.`. head: the
    projection's name; "" without one. width: of the matrix. query, document, page: texts, with a
    place for a text. processor: keys of processor_config.json. size: of images in the author's
    code.
    """

    config: Mapping[str, Any]
    prefix: str
    head: str = NAME
    width: int = 64
    query: str = f"{{}}{_TEN}"
    document: str = "{}"
    page: str = f"{_AROUND}<|im_end|><|endoftext|>"
    processor: Mapping[str, Any] = field(default_factory=dict)
    size: Mapping[str, int] = field(default_factory=lambda: SIZE)


def _code(model_type: str, name: str) -> dict[str, Any]:
    code = {"AutoModel": f"modeling_{model_type}.{name}"}
    return {"model_type": model_type, "architectures": [name], "auto_map": code}


PUBLICATIONS: Mapping[str, Publication] = {
    "tomoro": Publication(
        config={**_code("colqwen3", "ColQwen3"), "embed_dim": 16, "padding_side": "left"},
        prefix="vlm.model.",
        head="embedding_proj_layer",
        width=16,
        document=f"{{}}{_TEN}",
        processor={
            "visual_prompt_prefix": _AROUND,
            "visual_prompt_suffix": "<|im_end|><|endoftext|>",
            **{"video_prompt_prefix": "any", "video_prompt_suffix": "any", "query_prefix": ""},
        },
        size={**SIZE, "longest_edge": 1280 * AREA},
    ),
    "ops": Publication(
        config={**_code("ops_colqwen3", "OpsColQwen3Model"), "dims": 64},
        prefix="",
        query=f"Query: {{}}{_TEN}",
        page=f"{_AROUND}<|im_end|><|im_start|>assistant\n<|endoftext|>",
    ),
    "engine": Publication(
        config={"model_type": "qwen3_vl", "architectures": ["ColQwen3"]}, prefix="", width=128
    ),
    "nemotron": Publication(
        config={
            **_code("qwen3_vl_nemotron_embed", "Qwen3VLNemotronEmbedModel"),
            "pooling": "colbert",
        },
        prefix="model.",
        head="",
        processor={
            **{"q_max_length": 512, "p_max_length": 4096, "reserve_tokens_for_images": 100},
            **{"query_prefix": "query:", "passage_prefix": "passage:"},
        },
    ),
}


class ColQwen3:
    """A model and the steps of its authors' code."""

    def __init__(self, folder: Path, model: Any, name: str, head: torch.nn.Linear) -> None:
        self.of, self.model, self._folder, self._name = PUBLICATIONS[name], model, folder, name
        self.head = head if self.of.head else torch.nn.Identity()

    def query(self, query: str) -> str:
        """The text that the processor makes of a query."""
        if self._name == "nemotron":
            return self._chat({"type": "text", "text": f"Query: query: {query}"})
        return self.of.query.format(query)

    def page(self) -> str:
        """The text around a page."""
        if self._name == "nemotron":
            return self._chat(_IMAGE, {"type": "text", "text": "passage: "})
        return self.of.page

    def _chat(self, *parts: Mapping[str, str]) -> str:
        tokenizer: Any = PreTrainedTokenizerFast.from_pretrained(self._folder)
        messages = [{"role": "user", "content": [*parts]}]
        options = {"tokenize": False, "add_generation_prompt": True, "chat_template": TEMPLATE}
        text: str = tokenizer.apply_chat_template(messages, **options)
        return text

    @exactly
    def vectors(self, text: str, page: Any = None, width: int | None = None) -> Any:
        """The vectors of a text or a page: (tokens, dim). width: by default that of the files."""
        size = dict(self.of.size)
        states = states_of_page(self._folder, self.model, text, page, size=size)
        return projected(states, self.head, width or self.of.config.get("dims"))


def write_colqwen3(
    folder: Path, name: str = "tomoro", *, max_length: int = 256, **text: Any
) -> ColQwen3:
    """Save a model. name: one of PUBLICATIONS. text: sizes of the text encoder."""
    of = PUBLICATIONS[name]
    model = write_qwen3_vl(folder, max_length=max_length, ends=False, **text)
    save(folder, "preprocessor_config.json", PROCESSOR)
    save(folder, "processor_config.json", {"processor_class": "any", **of.processor})
    head = random_projection(of.width)

    def published(tensor: str) -> str:
        if tensor.startswith("lm_head."):
            return of.prefix.removesuffix("model.") + tensor
        return of.prefix + tensor.removeprefix("model.")

    rename(folder, published, head_tensors(head, of.head) if of.head else {})
    edit(folder, **of.config)
    if name == "nemotron":
        _change_attention(model.model.language_model)
    return ColQwen3(folder, model, name, head)


def _change_attention(encoder: Any) -> None:
    """Let every token see all others, and leave the last layer's states as they are."""

    def see_all(module: Any, args: Any, options: Any) -> Any:
        length = options["inputs_embeds"].shape[1]
        return args, {**options, "attention_mask": torch.zeros(1, 1, length, length)}

    encoder.register_forward_pre_hook(see_all, with_kwargs=True)
    encoder.norm = torch.nn.Identity()
