"""ColQwen2 (Faysse et al. 2024, arXiv 2407.01449): a Qwen2-VL with vectors of a page's tokens.

ColQwen2.5 is one with a Qwen2.5-VL.
"""

from dataclasses import replace

from embedwell_models.config.checkpoint_layout import (
    CheckpointLayout,
    ImageTokenSpec,
    PageFormat,
    Projection,
)
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.families import qwen2_5_vl, qwen2_vl
from embedwell_models.families.family import Family, Row, Variant

_FORMAT = PageFormat(
    placeholder="<|image_pad|>",
    page="<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image."
    "<|im_end|><|endoftext|>",
    query_prefix="Query: ",
    augmentation=None,
    query_end="\n",
)
_HEAD = "embedding_proj_layer"
_HEAD_OF_CODE, _WIDTH = "custom_text_proj", 128  # of the authors
_CODES = {"qwen2_vl": "ColQwen2", "qwen2_5_vl": "ColQwen2_5"}


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
            tensor=f"{_HEAD}.weight", width=options.get("embedding_dim", _WIDTH), bias=True
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


def of_authors(options: JsonConfig) -> CheckpointLayout:
    """Build the spec of a model as its authors' code saves it: a Qwen2(.5)-VL and a projection.

    Tokens of an image have positions of rows and columns.
    """
    read_base = qwen2_vl.read if options["model_type"] == "qwen2_vl" else qwen2_5_vl.read
    spec = read_base(options.without("architectures"))
    assert spec.image_tokens is not None
    encoder, head = spec.image_tokens.encoder, f"{_HEAD_OF_CODE}.*"
    encoder = replace(encoder, unused=(*encoder.unused, head))
    return replace(
        spec,
        unused=(*spec.unused, head),
        image_tokens=replace(spec.image_tokens, encoder=encoder),
        page_format=replace(_FORMAT, query_end=""),
        token_projection=Projection(tensor=f"{_HEAD_OF_CODE}.weight", width=_WIDTH, bias=True),
    )


_IGNORED = ("vocab_size", "in_chans", "spatial_patch_size")  # stated by other keys, too
FAMILIES = (
    Family(
        model_types=("colqwen2",),
        read=read,
        ignored_keys=_IGNORED,
        rows=(
            Row(
                family="ColQwen2, [texts and pages](multi-vector.md#images-of-pages)",
                models="colqwen2-v1.0-hf",
                positions="rotary",
                layers="as Qwen2-VL",
            ),
        ),
    ),
    Family(
        model_types=tuple(Variant.by_class(name, code) for name, code in _CODES.items()),
        name="colqwen2_of_authors",
        read=of_authors,
        ignored_keys=(*_IGNORED, "tokens_per_second"),  # of videos
        rows=(
            Row(
                family="ColQwen2 and ColQwen2.5 of their authors' code, "
                "[texts and pages](multi-vector.md#images-of-pages)",
                models="colqwen2-v0.1, -v1.0, colqwen2.5-v0.2, colnomic-embed-multimodal-3b, -7b",
                positions="rotary",
                layers="as Qwen2-VL, Qwen2.5-VL",
            ),
        ),
    ),
)
