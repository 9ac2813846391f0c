"""Jina v3 (Sturua et al. 2024, arXiv 2409.10173): a RoBERTa with RoPE, and adapters by task."""

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import Adapters, ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import bert, heads, roberta
from embedwell_models.families.family import DocsRow, Family, Variant
from embedwell_models.families.rope import rotary
from embedwell_models.positions.schemes import Scheme

_LAYER = "layers.{}"
TENSORS = {
    "embeddings.word_embeddings.weight": "token_table",
    "embeddings.token_type_embeddings.weight": "segment_table",
    **roberta.FLASH_TENSORS,
    **affine("embeddings.LayerNorm", "norm"),
    **affine(f"{_LAYER}.self_attn.q_proj", "layers.{}.query"),
    **affine(f"{_LAYER}.self_attn.k_proj", "layers.{}.key"),
    **affine(f"{_LAYER}.self_attn.v_proj", "layers.{}.value"),
    **affine(f"{_LAYER}.self_attn.o_proj", "layers.{}.output"),
    **affine(f"{_LAYER}.post_attention_layernorm", "layers.{}.attention_norm"),
    **affine(f"{_LAYER}.mlp.fc1", "layers.{}.up"),
    **affine(f"{_LAYER}.mlp.fc2", "layers.{}.down"),
    **affine(f"{_LAYER}.post_mlp_layernorm", "layers.{}.ffn_norm"),
}


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a Jina v3."""
    for key in ("rotary_emb_dim", "rotary_emb_scale_base", "rotary_emb_interleaved"):
        options.require(key, None, False)
    own = options["model_type"] == "xlm-roberta"
    base = options["rotary_emb_base"] if own else 20_000.0
    positions = rotary(options, options["hidden_size"] // options["num_attention_heads"], base=base)
    config = bert.config(
        options,
        norm_eps=options.get("layer_norm_eps", 1e-5),
        input_positions=Scheme(),
        positions=positions,
    )
    return ModelSpec(
        config=config,
        tensors=TENSORS,
        unused=(*roberta.UNUSED, "*.lora_[AB]"),
        prefixes=("roberta.",),
        adapters=_adapters(options),
    )


def _adapters(options: JsonConfig) -> Adapters | None:
    names = options.get("lora_adaptations", [])
    if not names:
        return None
    return Adapters(names=tuple(names), scale=options["lora_alpha"] / options["lora_rank"])


FAMILIES = (
    Family(
        model_types=("jina_embeddings_v3", Variant.by_positions("xlm-roberta", "rotary")),
        name="jina_embeddings_v3",
        read=read,
        classification_head=roberta.HEAD,
        masked_lm_head=heads.ROBERTA_MASKED_LM,
        default_segments=1,
        replaced_code=("XLMRobertaLoRA", "XLMRobertaModel"),
        row=DocsRow(
            "Jina v3, [by task](model-files.md#adapters)",
            "jina-embeddings-v3",
            positions="rotary",
            layers="post-norm",
        ),
    ),
)
