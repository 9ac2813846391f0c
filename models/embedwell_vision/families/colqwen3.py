"""ColQwen3: a Qwen3-VL with vectors of a page's tokens, as ColPali has (arXiv 2407.01449).

Tomoro, OpenSearch and colpali-engine project the states of tokens, each in a format of its own.
Nemotron ColEmbed (Moreira et al. 2026, arXiv 2602.03992) has no projection, and its tokens see the
whole text.
"""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families.family import DocsRow, Family, Variant
from embedwell_vision.families import qwen3_vl
from embedwell_vision.families.colqwen2 import COLPALI_ENGINE, project_tokens
from embedwell_vision.specs import ImageTokenSpec, PageFormat

_IMAGE = "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>"
_AUGMENTATION = "<|endoftext|>"
_TOMORO = replace(
    COLPALI_ENGINE,
    page=f"{_IMAGE}Describe the image.",
    around_page=("", f"<|im_end|>{_AUGMENTATION}"),
    augmentation=None,
    formats_documents=True,
)
_OPS = replace(
    COLPALI_ENGINE,
    page=f"{_IMAGE}Describe the image.<|im_end|><|im_start|>assistant\n{_AUGMENTATION}",
    query_prefix="Query: ",
)
_END = "<|im_end|>\n<|im_start|>assistant\n"
_NEMOTRON = PageFormat(  # in the chat template of Qwen3-VL
    placeholder="<|image_pad|>",
    page=_IMAGE,
    around_page=("", f"passage: {_END}"),
    passage_prefix="passage:",
    query_start="<|im_start|>user\nQuery: ",
    query_prefix="query:",
    query_prefix_end=" ",
    query_length=512,
    augmentation=None,
    augmentations=0,
    query_end=_END,
)
_MAX_TOKENS = 1280  # of an image in Tomoro's code
_CODE = "ColQwen3"


def tomoro(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Tomoro ColQwen3, which has the Qwen3-VL inside another model."""
    spec = _qwen3_vl(options)
    images = spec.image_tokens
    assert isinstance(images, ImageTokenSpec)
    area = (images.patch_size * images.merge) ** 2
    images = replace(images, pixels=(None, _MAX_TOKENS * area))
    width, tensor = options.get("embed_dim", 320), "embedding_proj_layer"
    return project_tokens(replace(spec, image_tokens=images), _TOMORO, tensor, width, inside="vlm.")


def ops(options: JsonConfig) -> ModelSpec:
    """Build the spec of an OpenSearch ColQwen3, whose vectors have the first `dims` numbers."""
    options.require("mask_non_image_embeddings", False)
    spec = _qwen3_vl(options)
    width = spec.config.hidden_size
    dims = options.get("dims", width)
    if not 0 < dims <= width:
        raise options.unsupported("dims", dims, f"1 to {width}")
    spec = project_tokens(spec, _OPS, "custom_text_proj", width)
    assert spec.token_projection is not None
    return replace(spec, token_projection=replace(spec.token_projection, outputs=dims))


def of_colpali_engine(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model as colpali-engine saves it: a Qwen3-VL and a projection."""
    width = options.get("dim", 128)
    return project_tokens(_qwen3_vl(options), COLPALI_ENGINE, "custom_text_proj", width)


def nemotron(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Nemotron ColEmbed: the last layer's states, without the final norm."""
    options.require("pooling", "colbert")
    spec = _qwen3_vl(options)
    norm = "final_norm.weight"
    return replace(
        spec,
        config=replace(spec.config, causal=False),
        tensors={theirs: ours for theirs, ours in spec.tensors.items() if ours != norm},
        unused=(*spec.unused, "norm.weight"),
        page_format=_NEMOTRON,
    )


def _qwen3_vl(options: JsonConfig) -> ModelSpec:
    spec = qwen3_vl.read(options.without("auto_map").without("architectures"))
    if not isinstance(spec.image_tokens, ImageTokenSpec):
        raise options.unsupported("vision_config", None, "that of a Qwen3-VL")
    return replace(spec, image_tokens=replace(spec.image_tokens, pixels=None))


def _row(family: str, models: str, layers: str = "as Qwen3-VL") -> DocsRow:
    pages = f"{family}, [texts and pages](multi-vector.md#colqwen3-and-nemotron-colembed)"
    return DocsRow(pages, models, positions="rotary", layers=layers)


_IGNORED = ("padding_side",)  # nothing attends to padding
FAMILIES = (
    Family(
        model_types=("colqwen3",),
        read=tomoro,
        replaced_code=(_CODE,),
        row=_row("ColQwen3 of Tomoro", "tomoro-colqwen3-embed-4b, -8b"),
        ignored_keys=_IGNORED,
    ),
    Family(
        model_types=("ops_colqwen3",),
        read=ops,
        replaced_code=("OpsColQwen3Model", "OpsColQwen3"),
        row=_row("ColQwen3 of OpenSearch", "Ops-Colqwen3-4B"),
        ignored_keys=_IGNORED,
    ),
    Family(
        model_types=(Variant.by_class("qwen3_vl", _CODE),),
        name="colqwen3_of_colpali_engine",
        read=of_colpali_engine,
        row=_row("ColQwen3 of colpali-engine", "SauerkrautLM-ColQwen3"),
    ),
    Family(
        model_types=("qwen3_vl_nemotron_embed",),
        read=nemotron,
        replaced_code=("Qwen3VLNemotronEmbedModel",),
        row=_row(
            "Nemotron ColEmbed", "nemotron-colembed-vl-4b-v2, -8b-v2", "as Qwen3-VL, bidirectional"
        ),
    ),
)
