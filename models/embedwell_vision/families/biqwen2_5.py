"""BiQwen2.5 (Faysse et al. 2024, arXiv 2407.01449): a Qwen2.5-VL with one vector of a text or page.

Its authors' code reads the state of the last token, which ends texts and pages alike.
"""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families.family import DocsRow, Family, Variant
from embedwell_vision.families import qwen2_5_vl
from embedwell_vision.specs import ImageTokenSpec

CODE = "BiQwen2_5"
_UNUSED = "custom_text_proj.*"  # of a base model for ColQwen2.5, too


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model as its authors' code saves it."""
    spec = qwen2_5_vl.read(options.without("architectures"))
    assert isinstance(spec.image_tokens, ImageTokenSpec)
    encoder = spec.image_tokens.encoder
    encoder = replace(encoder, unused=(*encoder.unused, _UNUSED))
    images = replace(spec.image_tokens, encoder=encoder)
    return replace(spec, unused=(*spec.unused, _UNUSED), image_tokens=images)


FAMILIES = (
    Family(
        model_types=(Variant.by_class("qwen2_5_vl", CODE),),
        name="biqwen2_5",
        read=read,
        published_pooling="lasttoken",
        prompts={"query": "Query: ", "document": ""},
        text_format="embedwell_vision.text_formats:BIQWEN",
        ignored_keys=("in_chans", "spatial_patch_size", "tokens_per_second"),  # as Qwen2.5-VL
        row=DocsRow(
            "BiQwen2.5, [texts and pages](image-inputs.md#nomic-embed-multimodal)",
            "nomic-embed-multimodal-3b, -7b",
            positions="rotary",
            layers="as Qwen2.5-VL",
        ),
    ),
)
