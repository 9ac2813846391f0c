"""ColIdefics3 and ColSmol (Faysse et al. 2024, arXiv 2407.01449): vectors of a page's tokens.

Llama reads a text, or tokens that SigLIP computes from the tiles of a page's image.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec, Projection
from embedwell_models.config.tensor_names import linear
from embedwell_models.families import llama
from embedwell_models.families.family import DocsRow, Family
from embedwell_vision.families.vision import siglip_tokens
from embedwell_vision.specs import ImageSpec, PageFormat

_VISION_DEFAULTS: Mapping[str, Any] = {  # of Idefics3VisionConfig in transformers
    **{"hidden_size": 1152, "num_attention_heads": 16, "patch_size": 32},
}
_FORMAT = PageFormat(
    placeholder="<image>",
    page="<|im_start|>User:<image>Describe the image.<end_of_utterance>\nAssistant:",
    tiles=True,
    query_prefix="",
    augmentation="<end_of_utterance>",
)
_WIDTH = 128  # of the authors' code
_UNUSED = ("linear.*", "lm_head.weight")


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model of texts and images of pages, as its authors' code saves it."""
    options.require("architectures", ["ColIdefics3"])
    text = options.nested("text_config")
    text.require("model_type", "llama")
    text.require("qk_layer_norms", False)
    spec = llama.read(text.without("architectures"))
    return replace(
        spec,
        prefixes=("model.text_model.", "text_model.", "model."),
        unused=(*spec.unused, *_UNUSED, "vision_model.*", "connector.*"),
        images=_images(options, spec.config.hidden_size),
        page_format=_FORMAT,
        token_projection=Projection(tensor="linear.weight", width=_WIDTH, bias=True),
    )


def _images(options: JsonConfig, width: int) -> ImageSpec:
    vision = options.nested("vision_config")
    vision.require("model_type", "idefics3_vision", "idefics3")
    return siglip_tokens(
        vision.with_defaults(_VISION_DEFAULTS),
        merge=options.get("scale_factor", 2),
        width=width,
        token_id=options.get("image_token_id", 128_257),
        connector=linear("connector.modality_projection.proj", "connector"),
        prefixes=("model.vision_model.", "vision_model.", "model."),
        unused=("text_model.*", *_UNUSED),
    )


FAMILIES = (
    Family(
        model_types=("idefics3",),
        read=read,
        ignored_keys=("_pad_token_id", "vocab_size"),  # stated by other keys, too
        row=DocsRow(
            "ColIdefics3, ColSmol, [texts and pages](multi-vector.md#images-of-pages)",
            "colSmol-256M, -500M",
            positions="rotary",
            layers="as Llama, and SigLIP",
        ),
    ),
)
