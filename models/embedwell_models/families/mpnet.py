"""MPNet (Song et al. 2020, arXiv 2004.09297), with a position table and buckets of distances."""

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import bert, heads, roberta
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.positions.schemes import Buckets, Learned

_LAYER, _OFFSET = "encoder.layer.{}", 2
TENSORS = {
    "embeddings.word_embeddings.weight": "token_table",
    "embeddings.position_embeddings.weight": "position_table",
    "encoder.relative_attention_bias.weight": "bias_table",
    **affine("embeddings.LayerNorm", "norm"),
    **affine(f"{_LAYER}.attention.attn.q", "layers.{}.query"),
    **affine(f"{_LAYER}.attention.attn.k", "layers.{}.key"),
    **affine(f"{_LAYER}.attention.attn.v", "layers.{}.value"),
    **affine(f"{_LAYER}.attention.attn.o", "layers.{}.output"),
    **affine(f"{_LAYER}.attention.LayerNorm", "layers.{}.attention_norm"),
    **affine(f"{_LAYER}.intermediate.dense", "layers.{}.up"),
    **affine(f"{_LAYER}.output.dense", "layers.{}.down"),
    **affine(f"{_LAYER}.output.LayerNorm", "layers.{}.ffn_norm"),
}
UNUSED = (*bert.UNUSED, "lm_head.*")


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of an MPNet; its positions begin at 2 for any padding token."""
    config = bert.config(
        options,
        max_positions=options["max_position_embeddings"] - _OFFSET,
        input_positions=Learned(offset=_OFFSET),
        positions=Buckets(buckets=options.require("relative_attention_num_buckets", 32)),
        segments=False,
    )
    return ModelSpec(config=config, tensors=TENSORS, unused=UNUSED, prefixes=("mpnet.",))


FAMILIES = (
    Family(
        model_types=("mpnet",),
        read=read,
        classification_head=roberta.HEAD,
        masked_lm_head=heads.ROBERTA_MASKED_LM,
        tokenizer_override="normalizer",
        scheme_names={"mpnet": "relative"},
        row=DocsRow(
            "MPNet",
            "all-mpnet-base-v2",
            positions="learned, plus distance buckets",
            layers="post-norm",
        ),
    ),
)
