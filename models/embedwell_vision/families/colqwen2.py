"""ColQwen2 (Faysse et al. 2024, arXiv 2407.01449): a Qwen2-VL with vectors of a page's tokens.

ColQwen2.5 is one with a Qwen2.5-VL.
"""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec, Projection
from embedwell_models.families.family import DocsRow, Family, Variant
from embedwell_vision.families import qwen2_5_vl, qwen2_vl
from embedwell_vision.specs import ImageTokenSpec, PageFormat

_AUGMENTATION = "<|endoftext|>"
COLPALI_ENGINE = PageFormat(
    placeholder="<|image_pad|>",
    page="<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>Describe the image."
    f"<|im_end|>{_AUGMENTATION}",
    query_prefix="",
    augmentation=_AUGMENTATION,
)
"""Format of colpali-engine since Qwen3-VL; its earlier one has a prefix of queries, too."""
_FORMAT = replace(COLPALI_ENGINE, query_prefix="Query: ", augmentation=None)
_WIDTH = 128  # of the authors
_CODES = {"qwen2_vl": "ColQwen2", "qwen2_5_vl": "ColQwen2_5"}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model of texts and images of pages, as transformers saves it.

    Tokens of an image have the positions of tokens of a text.
    """
    model = options.nested("vlm_config")
    model.require("model_type", "qwen2_vl")
    spec = qwen2_vl.read(model)
    assert isinstance(spec.image_tokens, ImageTokenSpec)
    spec = replace(spec, image_tokens=replace(spec.image_tokens, sections=None))
    width, page_format = options.get("embedding_dim", _WIDTH), replace(_FORMAT, query_end="\n")
    return project_tokens(spec, page_format, "embedding_proj_layer", width, inside="vlm.")


def of_authors(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model as its authors' code saves it: a Qwen2(.5)-VL and a projection.

    Tokens of an image have positions of rows and columns.
    """
    read_base = qwen2_vl.read if options["model_type"] == "qwen2_vl" else qwen2_5_vl.read
    return project_tokens(
        read_base(options.without("architectures")), _FORMAT, "custom_text_proj", _WIDTH
    )


def project_tokens(
    spec: ModelSpec, page_format: PageFormat, head: str, width: int, inside: str = ""
) -> ModelSpec:
    """Add a projection of each token's state to the spec of a model of texts and images.

    head: its name. inside: prefix of the names of all other tensors.
    """
    assert isinstance(spec.image_tokens, ImageTokenSpec)
    encoder, projection = spec.image_tokens.encoder, f"{head}.*"
    prefixes = (*spec.prefixes, "") if inside else spec.prefixes
    encoder = replace(
        encoder,
        prefixes=tuple(f"{inside}{prefix}" for prefix in encoder.prefixes),
        unused=(*(f"{inside}{pattern}" for pattern in encoder.unused), projection),
    )
    return replace(
        spec,
        prefixes=tuple(f"{inside}{prefix}" for prefix in prefixes),
        unused=(*spec.unused, projection),
        image_tokens=replace(spec.image_tokens, encoder=encoder),
        page_format=page_format,
        token_projection=Projection(tensor=f"{head}.weight", width=width, bias=True),
    )


_IGNORED = ("vocab_size", "in_chans", "spatial_patch_size")  # stated by other keys, too
FAMILIES = (
    Family(
        model_types=("colqwen2",),
        read=read,
        ignored_keys=_IGNORED,
        row=DocsRow(
            "ColQwen2, [texts and pages](multi-vector.md#images-of-pages)",
            "colqwen2-v1.0-hf",
            positions="rotary",
            layers="as Qwen2-VL",
        ),
    ),
    Family(
        model_types=tuple(Variant.by_class(name, code) for name, code in _CODES.items()),
        name="colqwen2_of_authors",
        read=of_authors,
        ignored_keys=(*_IGNORED, "tokens_per_second"),  # of videos
        row=DocsRow(
            "ColQwen2 and ColQwen2.5 of their authors' code, "
            "[texts and pages](multi-vector.md#images-of-pages)",
            "colqwen2-v0.1, -v1.0, colqwen2.5-v0.2, colnomic-embed-multimodal-3b, -7b",
            positions="rotary",
            layers="as Qwen2-VL, Qwen2.5-VL",
        ),
    ),
)
