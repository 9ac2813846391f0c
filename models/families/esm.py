"""ESM-2 (Lin et al. 2022) and ESM-1b, of proteins: a BERT with norms before its parts."""

from pathlib import Path

from models.checkpoint import safetensors_files
from models.config.blueprint import Blueprint, affine
from models.config.json_config import JsonConfig
from models.families import bert
from models.positions.schemes import Learned, Rotary, Scheme

_LAYER = "encoder.layer.{}"
_SEEN = 1 - 0.15 * 0.8  # the share of tokens that the training did not hide
_FREQUENCIES = "rotary_embeddings.inv_freq"
TENSORS = {
    "embeddings.word_embeddings.weight": "token_table",
    **affine(f"{_LAYER}.attention.LayerNorm", "layers.{}.attention_norm"),
    **affine(f"{_LAYER}.attention.self.query", "layers.{}.query"),
    **affine(f"{_LAYER}.attention.self.key", "layers.{}.key"),
    **affine(f"{_LAYER}.attention.self.value", "layers.{}.value"),
    **affine(f"{_LAYER}.attention.output.dense", "layers.{}.output"),
    **affine(f"{_LAYER}.LayerNorm", "layers.{}.ffn_norm"),
    **affine(f"{_LAYER}.intermediate.dense", "layers.{}.up"),
    **affine(f"{_LAYER}.output.dense", "layers.{}.down"),
    **affine("encoder.emb_layer_norm_after", "final_norm"),
}
_TABLE = {"embeddings.position_embeddings.weight": "position_table"}
UNUSED = (
    *("embeddings.position_ids", "pooler.*", "contact_head.*", "lm_head.*", "classifier.*"),
    *(_FREQUENCIES, f"encoder.layer.*.attention.self.{_FREQUENCIES}"),
)


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of an ESM.

    With `token_dropout` a text's scale depends on how many of its tokens are <mask>: without its
    row in the table, which is the last, that token is refused.
    """
    raw.only("is_folding_model", False)
    raw.only("position_embedding_type", "absolute", "rotary")
    rotary = raw.get("position_embedding_type", "absolute") == "rotary"
    dropout = raw.get("token_dropout", False)
    if dropout:
        raw.only("mask_token_id", raw["vocab_size"] - 1)
    offset = 0 if rotary else raw["pad_token_id"] + 1
    config = bert.config(
        raw,
        vocab_size=raw["vocab_size"] - dropout,
        max_positions=raw["max_position_embeddings"] - offset,
        activation="gelu",
        arrangement="pre",
        table=Scheme() if rotary else Learned(offset=offset),
        positions=_rotary(raw) if rotary else Scheme(),
        segments=False,
        token_scale=_SEEN if dropout else 1.0,
    )
    first = affine("embeddings.layer_norm", "norm")
    normed = raw.get("emb_layer_norm_before", False)
    return Blueprint(
        config=config,
        tensors={**TENSORS, **(first if normed else {}), **({} if rotary else _TABLE)},
        unused=(*UNUSED, *(_TABLE if rotary else ())),
        prefixes=("esm.",),
        spare_rows=int(dropout),
    )


def _rotary(raw: JsonConfig) -> Rotary:
    return Rotary(
        dim=raw["hidden_size"] // raw["num_attention_heads"],
        base=float(raw.get("rope_theta", 10_000.0)),
        frequencies=_stored(raw.path.parent),
    )


def _stored(folder: Path) -> tuple[float, ...]:
    # Older checkpoints hold them as the training had them, in half precision.
    stored = safetensors_files.safetensors(folder)
    names = sorted(safetensors_files.headers(folder)) if stored else []
    found = next((name for name in names if name.endswith(_FREQUENCIES)), None)
    return () if found is None else tuple(map(float, safetensors_files.read(folder, found)))
