"""Llama Nemotron Embed VL (NVIDIA 2025): a bidirectional Llama that reads texts, images, or both.

SigLIP computes tokens of a text from the tiles of an image, as in Eagle 2 (Li et al. 2025, arXiv
2501.14818). The reranker of the same layers reads texts alone here.
"""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import llama
from embedwell_models.families.family import DocsRow, Family
from embedwell_vision.families.vision import siglip_tokens
from embedwell_vision.images.tiles import PASSAGE_PREFIX, QUERY_PREFIX
from embedwell_vision.specs import ImageSpec

_CONNECTOR = {
    **affine("mlp1.0", "connector.norm"),
    **affine("mlp1.1", "connector.up"),
    **affine("mlp1.3", "connector.down"),
}
_MERGE = 2  # patches of a side of the block that becomes one token
_MAX_LENGTH = 10_240  # tokens of a passage in the code of the authors
_OF_IMAGES = ("vision_model.*", "mlp1.*")
_IGNORED = (
    # Of the processor, which has a file of its own.
    *("template", "dynamic_image_size", "use_thumbnail", "min_dynamic_patch", "max_dynamic_patch"),
    *("max_input_tiles", "q_max_length", "p_max_length"),
    # Of other models of the same code, or of training.
    *("bidirectional_attention", "keep_aspect_ratio", "mlp_checkpoint", "pre_feature_reduction"),
    "vocab_size",  # of the text encoder, which states it, too
)


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a model that embeds texts and images."""
    spec = _text(options, "")
    return replace(spec, images=_images(options, spec.config.hidden_size))


def rerank(options: JsonConfig) -> ModelSpec:
    """Build the spec of the reranker, for texts."""
    options.require("prompt_template", "v1")
    return _text(options, "model.")


def _text(options: JsonConfig, prefix: str) -> ModelSpec:
    """Build the spec of the text encoder. prefix: of the names of all tensors but the head."""
    if (pooling := options.get("pooling", "last")) != "avg":
        raise options.unsupported("pooling", pooling, ["avg"])
    for key, stated in (("query_prefix", QUERY_PREFIX), ("passage_prefix", PASSAGE_PREFIX)):
        options.require(key, stated)
    for key in ("use_backbone_lora", "use_llm_lora"):
        options.require(key, 0)
    text = options.nested("llm_config")
    text.require("model_type", "llama_bidirec")
    spec = llama.bidirectional(text)
    length = min(spec.config.max_positions, options.get("p_max_length", _MAX_LENGTH))
    return replace(
        spec,
        config=replace(spec.config, max_positions=length, limited=True),
        prefixes=(f"{prefix}language_model.", prefix) if prefix else ("language_model.",),
        unused=(*spec.unused, *_OF_IMAGES),
    )


def _images(options: JsonConfig, width: int) -> ImageSpec:
    vision = options.nested("vision_config")
    vision.require("model_type", "siglip_vision_model")
    options.require("downsample_ratio", 1 / _MERGE)
    options.require("ps_version", "v2")
    options.require("select_layer", -1)
    images = siglip_tokens(
        vision,
        merge=_MERGE,
        width=width,
        token_id=options.get("img_context_token_id", 128_258),
        connector=_CONNECTOR,
        prefixes=("vision_model.vision_model.", "vision_model."),
        unused=("language_model.*", "lm_head.weight"),
    )
    options.require("force_image_size", images.image_size)
    return images


FAMILIES = (
    Family(
        model_types=("llama_nemotron_vl",),
        read=read,
        published_pooling="mean",
        prompts={"query": f"{QUERY_PREFIX} ", "document": f"{PASSAGE_PREFIX} "},
        replaced_code=("LlamaNemotronVLModel",),
        ignored_keys=_IGNORED,
        row=DocsRow(
            "Llama Nemotron Embed VL, [texts and images](image-inputs.md#llama-nemotron-embed-vl)",
            "llama-nemotron-embed-vl-1b-v2",
            positions="rotary",
            layers="as Llama, bidirectional, and SigLIP",
        ),
    ),
    Family(
        model_types=("llama_nemotron_vl_rerank",),
        read=rerank,
        classification_head=llama.bidirectional_head,
        rerank_format="llama-nemotron-rerank",
        replaced_code=("LlamaNemotronVLForSequenceClassification",),
        ignored_keys=(*_IGNORED, "downsample_ratio", "ps_version", "select_layer", "force_image_*"),
        row=DocsRow(
            "Llama Nemotron Rerank VL, texts only",
            "llama-nemotron-rerank-vl-1b-v2",
            positions="rotary",
            layers="as Llama, bidirectional",
        ),
    ),
)
