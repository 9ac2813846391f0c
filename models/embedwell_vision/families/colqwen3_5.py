"""ColQwen3.5 (ColPali; Faysse et al. 2024, arXiv 2407.01449): a Qwen3.5 with vectors of tokens."""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families.family import DocsRow, Family, Variant
from embedwell_rare.families import qwen3_5
from embedwell_vision.families.colqwen2 import COLPALI_ENGINE, project_tokens
from embedwell_vision.families.qwen3_vl import image_tokens

_CODE = "ColQwen3_5"
_WIDTHS = ("dim", "embed_dim", "dims")  # keys of the number of dimensions, 128 by default


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model as colpali-engine saves it: a Qwen3.5 and a projection."""
    options.require("mask_non_image_embeddings", False)
    for each in (options, options.nested("text_config")):
        each.require("retrieval_attention_contract", "causal", None)
    spec = qwen3_5.read(options.without("architectures"))
    images = image_tokens(
        options.with_defaults({"image_token_id": 248_056}),
        spec.config.hidden_size,
        kinds=("qwen3_5_vision", "qwen3_5"),
        deepstack=(),
        sections=(11, 11, 10),
    )
    if images is None:
        raise options.unsupported("vision_config", None, "the options of the image encoder")
    width = next((width for key in _WIDTHS if (width := options.get(key, 0))), 128)
    encoder = replace(images.encoder, unused=(*images.encoder.unused, "mtp.*"))
    spec = replace(spec, image_tokens=replace(images, encoder=encoder, pixels=None))
    return project_tokens(spec, COLPALI_ENGINE, "custom_text_proj", width)


FAMILIES = (
    Family(
        model_types=(Variant.by_class("qwen3_5", _CODE),),
        name="colqwen3_5",
        read=read,
        ignored_keys=(*qwen3_5.IGNORED, "padding_side"),  # nothing attends to padding
        row=DocsRow(
            "ColQwen3.5, [texts and pages](multi-vector.md#images-of-pages)",
            "colqwen3.5-4.5B-v3",
            positions="rotary",
            layers="as Qwen3.5",
        ),
    ),
)
