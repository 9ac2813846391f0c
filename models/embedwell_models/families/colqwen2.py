"""ColQwen2 (Faysse et al. 2024, arXiv 2407.01449): a Qwen2-VL with vectors of a page's tokens."""

from dataclasses import replace

from embedwell_models.config.checkpoint_layout import (
    CheckpointLayout,
    ImageTokenSpec,
    PageFormat,
    Projection,
)
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import qwen2_vl
from embedwell_models.families.family import Family, Row

_FORMAT = PageFormat(
    placeholder="<|image_pad|>",
    page="<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image."
    "<|im_end|><|endoftext|>",
    query_prefix="Query: ",
    augmentation=None,
    query_end="\n",
)
_HEAD = "embedding_proj_layer"


def read(options: JsonConfig) -> CheckpointLayout:
    """Build the spec of a model of texts and images of pages, as transformers saves it."""
    model = options.nested("vlm_config")
    model.require("model_type", "qwen2_vl")
    spec = qwen2_vl.read(model)
    assert spec.image_tokens is not None
    return replace(
        spec,
        prefixes=tuple(f"vlm.{prefix}" for prefix in (*spec.prefixes, "")),
        unused=(*spec.unused, f"{_HEAD}.*"),
        image_tokens=_inside(spec.image_tokens),
        page_format=_FORMAT,
        token_projection=Projection(
            tensor=f"{_HEAD}.weight", width=options.get("embedding_dim", 128), bias=True
        ),
    )


def _inside(images: ImageTokenSpec) -> ImageTokenSpec:
    # The names of the image encoder in the larger checkpoint. This model gives tokens of an image
    # the positions of tokens of a text.
    encoder = images.encoder
    encoder = replace(
        encoder,
        prefixes=tuple(f"vlm.{prefix}" for prefix in encoder.prefixes),
        unused=(*(f"vlm.{pattern}" for pattern in encoder.unused), f"{_HEAD}.*"),
    )
    return replace(images, encoder=encoder, sections=None)


FAMILIES = (
    Family(
        model_types=("colqwen2",),
        read=read,
        ignored_keys=("vocab_size", "in_chans", "spatial_patch_size"),  # stated by other keys, too
        rows=(
            Row(
                family="ColQwen2, [texts and pages](multi-vector.md#images-of-pages)",
                models="colqwen2-v1.0-hf",
                positions="rotary",
                layers="as Qwen2-VL",
            ),
        ),
    ),
)
