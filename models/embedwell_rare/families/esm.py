"""ESM-2 (Lin et al. 2022) and ESM-1b, for proteins: a BERT with pre-norm."""

from pathlib import Path

from embedwell_models.checkpoint import safetensors_files
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine
from embedwell_models.families import bert, roberta
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.positions.schemes import Learned, Rotary, Scheme

_LAYER = "encoder.layer.{}"
_UNMASKED = 1 - 0.15 * 0.8  # the share of tokens that were not masked in training
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


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of an ESM.

    With `token_dropout` the scale of a text depends on its number of <mask> tokens. <mask> is
    therefore refused: its row, the last one of the table, is left out.
    """
    options.require("is_folding_model", False)
    options.require("position_embedding_type", "absolute", "rotary")
    rotary = options.get("position_embedding_type", "absolute") == "rotary"
    dropout = options.get("token_dropout", False)
    if dropout:
        options.require("mask_token_id", options["vocab_size"] - 1)
    offset = 0 if rotary else options["pad_token_id"] + 1
    config = bert.config(
        options,
        vocab_size=options["vocab_size"] - dropout,
        max_positions=options["max_position_embeddings"] - offset,
        activation="gelu",
        arrangement="pre",
        input_positions=Scheme() if rotary else Learned(offset=offset),
        positions=_rotary(options) if rotary else Scheme(),
        segments=False,
        token_scale=_UNMASKED if dropout else 1.0,
    )
    norm = affine("embeddings.layer_norm", "norm")
    normed = options.get("emb_layer_norm_before", False)
    return ModelSpec(
        config=config,
        tensors={**TENSORS, **(norm if normed else {}), **({} if rotary else _TABLE)},
        unused=(*UNUSED, *(_TABLE if rotary else ())),
        prefixes=("esm.",),
        spare_rows=int(dropout),
    )


def _rotary(options: JsonConfig) -> Rotary:
    return Rotary(
        dim=options["hidden_size"] // options["num_attention_heads"],
        base=float(options.get("rope_theta", 10_000.0)),
        frequencies=_stored(options.path.parent),
    )


def _stored(folder: Path) -> tuple[float, ...]:
    # Older checkpoints contain the frequencies of the training in half precision.
    stored = safetensors_files.weight_files(folder)
    names = sorted(safetensors_files.headers(folder)) if stored else []
    match = next((name for name in names if name.endswith(_FREQUENCIES)), None)
    return () if match is None else tuple(map(float, safetensors_files.read_tensor(folder, match)))


FAMILIES = (
    Family(
        model_types=("esm",),
        read=read,
        classification_head=roberta.HEAD,
        ignored_keys=("esmfold_config", "vocab_list"),
        row=DocsRow(
            "ESM-2, ESM-1b (proteins)",
            "esm2_t33_650M",
            positions="rotary (ESM-2); learned, with offset (ESM-1b)",
            layers="pre-norm",
        ),
    ),
)
