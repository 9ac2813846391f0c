"""GTE v1.5 (Zhang et al. 2024, mGTE, arXiv 2407.19669), in its own names and in transformers'."""

from models.config.blueprint import Blueprint, affine
from models.config.json_config import JsonConfig
from models.families import bert
from models.families.rope import rotary
from models.positions.schemes import Rotary, Scaling, Scheme

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


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a GTE v1.5; the oldest of them know no segments."""
    raw.only("position_embedding_type", "rope")
    raw.only("layer_norm_type", "layer_norm")
    raw.only("logn_attention_scale", False)
    segments = raw.get("type_vocab_size", 1) > 0
    positions = _rotary(raw)
    config = bert.config(
        raw,
        table=Scheme(),
        positions=positions,
        segments=segments,
        gated=True,
    )
    return Blueprint(
        config=config,
        tensors=TENSORS | SEGMENTS if segments else TENSORS,
        unused=UNUSED,
        prefixes=("new.", "gte."),
    )


def _rotary(raw: JsonConfig) -> Rotary:
    head_size = raw["hidden_size"] // raw["num_attention_heads"]
    given = raw.nested("rope_scaling")
    if given.get("type") != "ntk":
        return rotary(raw, head_size, base=_BASE)
    if given.get("mixed_b") is not None:
        raise given.refusal("mixed_b", given["mixed_b"], None)
    scaling = Scaling(kind="ntk", factor=given["factor"])
    return Rotary(dim=head_size, base=float(raw.get("rope_theta", _BASE)), scaling=scaling)
