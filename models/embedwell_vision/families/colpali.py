"""ColPali (Faysse et al. 2024, arXiv 2407.01449): a PaliGemma with vectors of a page's tokens.

Gemma reads a text, or tokens that SigLIP computes from a page. Each token sees all others.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec, Projection
from embedwell_models.config.tensor_names import linear
from embedwell_models.families import gemma
from embedwell_models.families.family import DocsRow, Family
from embedwell_vision.families.vision import siglip_tokens
from embedwell_vision.specs import ImageSpec, PageFormat

_TEXT_DEFAULTS: Mapping[str, Any] = {  # of GemmaConfig in transformers
    **{"vocab_size": 256_000, "hidden_size": 3072, "intermediate_size": 24_576},
    **{"num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16},
    "max_position_embeddings": 8192,
}
_FORMAT = PageFormat(
    placeholder="<image>",
    page="Describe the image.",
    around_page=("<image><bos>", "\n"),
    query_start="<bos>",
    query_prefix="Question: ",
    augmentation=None,
    query_end="\n",
    special_tokens=False,
)
_HEAD, _TOWER, _CONNECTOR = "embedding_proj_layer", "vision_tower", "multi_modal_projector"
_TEXT = ("vlm.model.language_model.", "vlm.language_model.model.", "vlm.language_model.")
_IMAGES = tuple(
    f"vlm.{model}{_TOWER}.{part}" for part in ("vision_model.", "") for model in ("model.", "")
)
_OTHERS = ("vlm.model.", "vlm.")


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model of texts and images of pages, as transformers saves it."""
    model = options.nested("vlm_config")
    model.require("model_type", "paligemma")
    spec = gemma.read(_text(model))
    return replace(
        spec,
        prefixes=(*_TEXT, *_OTHERS),
        unused=(*spec.unused, f"{_TOWER}.*", f"{_CONNECTOR}.*", f"{_HEAD}.*", "language_model.*"),
        images=_images(model, spec.config.hidden_size),
        page_format=_FORMAT,
        token_projection=Projection(
            tensor=f"{_HEAD}.weight", width=options.get("embedding_dim", 128), bias=True
        ),
    )


def _text(model: JsonConfig) -> JsonConfig:
    text, key = model.nested("text_config"), "use_bidirectional_attention"
    text.require("model_type", "gemma")
    text.require(key, None, True)  # None stands for True in transformers' PaliGemma
    return text.without(key).with_defaults(_TEXT_DEFAULTS).with_values({"is_causal": False})


def _images(model: JsonConfig, width: int) -> ImageSpec:
    vision = model.nested("vision_config")
    vision.require("model_type", "siglip_vision_model")
    key = "image_token_index" if "image_token_index" in model else "image_token_id"
    return siglip_tokens(
        vision,
        merge=1,
        width=width,
        token_id=model.get(key, 256_000),
        connector=linear(f"{_CONNECTOR}.linear", "connector", bias=True),
        prefixes=(*_IMAGES, *_OTHERS),
        unused=("language_model.*", f"{_HEAD}.*", "lm_head.weight"),
    )


FAMILIES = (
    Family(
        model_types=("colpali",),
        read=read,
        ignored_keys=("vocab_size", "hidden_size", "num_image_tokens"),  # stated by other keys, too
        tokenizer_override="nothing",
        row=DocsRow(
            "ColPali, [texts and pages](multi-vector.md#images-of-pages)",
            "colpali-v1.3-hf",
            positions="rotary",
            layers="as Gemma, bidirectional, and SigLIP",
        ),
    ),
)
