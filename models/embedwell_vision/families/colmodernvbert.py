"""ColModernVBERT (Teiletche et al. 2025, arXiv 2510.01149): vectors of a page's tokens.

ModernBERT reads a text, or tokens that SigLIP computes from the tiles of a page's image.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec, Projection
from embedwell_models.config.tensor_names import linear
from embedwell_models.families import modernbert
from embedwell_models.families.family import DocsRow, Family
from embedwell_vision.families.vision import siglip_tokens
from embedwell_vision.specs import PageFormat

_TEXT_DEFAULTS: Mapping[str, Any] = {  # of ModernBertConfig in transformers
    **{"vocab_size": 50_368, "hidden_size": 768, "intermediate_size": 1152},
    **{"num_hidden_layers": 22, "num_attention_heads": 12, "max_position_embeddings": 8192},
}

_FORMAT = PageFormat(
    placeholder="<image>",
    page="<|begin_of_text|>User:<image>Describe the image.<end_of_utterance>\nAssistant:",
    tiles=True,
    query_prefix="",
    augmentation="<end_of_utterance>",
)


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model of texts and images of pages."""
    model = options.nested("vlm_config")
    model.require("model_type", "modernvbert")
    text, vision = model.nested("text_config"), model.nested("vision_config")
    text.require("model_type", "modernbert")
    vision.require("model_type", "siglip_vision_model")
    spec = modernbert.read(text.with_defaults(_TEXT_DEFAULTS))
    images = siglip_tokens(
        vision,
        merge=model.get("pixel_shuffle_factor", 4),
        width=spec.config.hidden_size,
        token_id=model.get("image_token_id", 50_407),
        connector=linear("connector.modality_projection", "connector"),
        prefixes=("vlm.vision_model.", "vlm."),
        unused=("text_model.*", "embedding_proj_layer.*"),
    )
    return replace(
        spec,
        prefixes=("vlm.text_model.",),
        unused=("vlm.vision_model.*", "vlm.connector.*", "embedding_proj_layer.*"),
        images=images,
        page_format=_FORMAT,
        token_projection=Projection(
            tensor="embedding_proj_layer.weight", width=options.get("embedding_dim", 128), bias=True
        ),
    )


FAMILIES = (
    Family(
        model_types=("colmodernvbert",),
        read=read,
        ignored_keys=("vocab_size",),
        row=DocsRow(
            "ColModernVBERT, [texts and pages](multi-vector.md#images-of-pages)",
            "colmodernvbert-merged",
            positions="as ModernBERT",
            layers="as ModernBERT, and SigLIP",
        ),
    ),
)
