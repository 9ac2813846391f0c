"""Jina embeddings v4 (Günther et al. 2025, arXiv 2506.18902): a Qwen2.5-VL with adapters by task.

A text or an image has a vector, and its tokens have vectors, too.
"""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import (
    Adapters,
    ModelSpec,
    Projection,
)
from embedwell_models.families.family import DocsRow, Family, Variant
from embedwell_vision.families import qwen2_5_vl
from embedwell_vision.specs import ImageTokenSpec, PageFormat
from embedwell_vision.text_formats import DESCRIBED_IMAGE

_CODE = "JinaEmbeddingsV4Model"
_TYPE = "qwen2_5_vl"
_MAX_LENGTH = 32_768  # tokens of a text in that code
_HEAD = "multi_vector_projector"


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Jina v4, whose adapters change the text encoder and the projection."""
    options.require("single_vector_pool_strategy", "mean")
    options.require("truncate_dim", None)
    base = options.without("auto_map").without("architectures").with_values({"model_type": _TYPE})
    spec, names = qwen2_5_vl.read(base), tuple(options["task_names"])
    assert isinstance(spec.image_tokens, ImageTokenSpec)
    encoder, ends = spec.image_tokens.encoder, ("vision_start_token_id", "vision_end_token_id")
    first, last = (options.get(key, 151_652 + index) for index, key in enumerate(ends))
    images = replace(
        spec.image_tokens,
        encoder=replace(encoder, unused=(*encoder.unused, f"{_HEAD}.*")),
        pooled=(first, last),
    )
    length = min(spec.config.max_positions, _MAX_LENGTH)
    return replace(
        spec,
        config=replace(spec.config, max_positions=length, limited=True),
        unused=(*spec.unused, f"{_HEAD}.*"),
        image_tokens=images,
        page_format=PageFormat(
            placeholder=images.placeholder,
            page=f"{DESCRIBED_IMAGE}\n",
            query_prefix="Query: ",
            augmentation=None,
            augmentations=0,
        ),
        token_projection=Projection(
            tensor=f"{_HEAD}.weight",
            width=options.get("multi_vector_projector_dim", 128),
            bias=True,
            always=False,
        ),
        adapters=Adapters(
            names=names, folder="adapters", in_one_file=True, symmetric=("text-matching",)
        ),
    )


FAMILIES = (
    Family(
        model_types=tuple(Variant.by_class(name, _CODE) for name in (_TYPE, f"{_TYPE}_text", "")),
        name="jina_v4",
        read=read,
        published_pooling="mean",
        prompts={"query": "Query: ", "document": "Passage: ", "passage": "Passage: "},
        default_prompt="query",
        text_format="embedwell_vision.text_formats:JINA_V4",
        replaced_code=(_CODE,),
        ignored_keys=(
            *("in_chans", "spatial_patch_size", "tokens_per_second"),  # as Qwen2.5-VL
            *("hidden_*", "intermediate_size", "num_*", "max_*", "rms_norm_eps", "rope_*"),
            *("vocab_size", "use_sliding_window"),  # of the text encoder, which has its own
            *("matryoshka_dims", "verbosity"),
        ),
        row=DocsRow(
            "Jina v4, [texts and images](image-inputs.md#jina-v4), "
            "[by task](model-files.md#adapters)",
            "jina-embeddings-v4",
            positions="rotary",
            layers="as Qwen2.5-VL",
        ),
    ),
)
