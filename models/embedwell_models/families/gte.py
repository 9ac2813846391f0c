"""GTE v1.5 (Zhang et al. 2024, mGTE, arXiv 2407.19669), with its own or transformers' names."""

from dataclasses import replace

from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import bert
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import masked_lm_head, two_layers
from embedwell_models.families.rope import rotary
from embedwell_models.positions.schemes import Rotary, Scaling, Scheme

_BASE = 160_000.0
_OWN, _LAYER = "encoder.layer.{}", "layers.{}"
TENSORS = {
    "embeddings.word_embeddings.weight": "token_table",
    **affine("embeddings.LayerNorm", "norm"),
    **affine(f"{_OWN}.attention.qkv_proj", "layers.{}.query|key|value"),
    **affine(f"{_OWN}.attention.q_proj", "layers.{}.query"),
    **affine(f"{_OWN}.attention.k_proj", "layers.{}.key"),
    **affine(f"{_OWN}.attention.v_proj", "layers.{}.value"),
    **affine(f"{_OWN}.attention.o_proj", "layers.{}.output"),
    **affine(f"{_OWN}.attn_ln", "layers.{}.attention_norm"),
    f"{_OWN}.mlp.up_gate_proj.weight": "layers.{}.up|gate.weight",
    **affine(f"{_OWN}.mlp.down_proj", "layers.{}.down"),
    **affine(f"{_OWN}.mlp_ln", "layers.{}.ffn_norm"),
    **affine(f"{_LAYER}.self_attn.q_proj", "layers.{}.query"),
    **affine(f"{_LAYER}.self_attn.k_proj", "layers.{}.key"),
    **affine(f"{_LAYER}.self_attn.v_proj", "layers.{}.value"),
    **affine(f"{_LAYER}.self_attn.o_proj", "layers.{}.output"),
    **affine(f"{_LAYER}.post_attention_layernorm", "layers.{}.attention_norm"),
    f"{_LAYER}.mlp.up_proj.weight": "layers.{}.up.weight",
    f"{_LAYER}.mlp.gate_proj.weight": "layers.{}.gate.weight",
    **affine(f"{_LAYER}.mlp.down_proj", "layers.{}.down"),
    **affine(f"{_LAYER}.post_mlp_layernorm", "layers.{}.ffn_norm"),
}
SEGMENTS = {"embeddings.token_type_embeddings.weight": "segment_table"}
UNUSED = (*bert.UNUSED, "lm_head.*", "rotary_emb.*", "embeddings.rotary_emb.*")


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a GTE v1.5; the oldest checkpoints have no segments."""
    options.require("position_embedding_type", "rope")
    options.require("layer_norm_type", "layer_norm")
    options.require("logn_attention_scale", False)
    segments = options.get("type_vocab_size", 1) > 0
    positions = _rotary(options)
    config = bert.config(
        options,
        input_positions=Scheme(),
        positions=positions,
        segments=segments,
        gated=True,
    )
    return ModelSpec(
        config=config,
        tensors=TENSORS | SEGMENTS if segments else TENSORS,
        unused=UNUSED,
        prefixes=("new.", "gte."),
    )


def _rotary(options: JsonConfig) -> Rotary:
    head_size = options["hidden_size"] // options["num_attention_heads"]
    rope_scaling = options.nested("rope_scaling")
    if rope_scaling.get("type") != "ntk":
        return rotary(options, head_size, base=_BASE)
    if rope_scaling.get("mixed_b") is not None:
        raise rope_scaling.unsupported("mixed_b", rope_scaling["mixed_b"], None)
    scaling = Scaling(kind="ntk", factor=rope_scaling["factor"])
    return Rotary(dim=head_size, base=float(options.get("rope_theta", _BASE)), scaling=scaling)


_GTE = Family(
    model_types=("gte",),
    read=read,
    classification_head=two_layers("gte.pooler.dense", "classifier"),
    masked_lm_head=masked_lm_head(
        "lm_head.dense", "lm_head.norm", "lm_head.decoder", activation="gelu"
    ),
    default_segments=1,
    replaced_code=("GteModel", "NewModel"),
    row=DocsRow(
        "GTE v1.5",
        "gte-base-en-v1.5, gte-multilingual, stella_en_400M",
        positions="rotary, NTK",
        layers="post-norm, gated FFN",
    ),
)
_NEW = replace(
    _GTE,
    model_types=("new",),
    classification_head=two_layers("new.pooler.dense", "classifier"),
    masked_lm_head=masked_lm_head("lm_head.dense", "lm_head.norm", "lm_head.decoder"),
)
FAMILIES = (_NEW, _GTE)
