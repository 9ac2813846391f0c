"""DeBERTa (He et al. 2020, arXiv 2006.03654), and its versions 2 and 3 (arXiv 2111.09543)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from embedwell_models.config.encoder_config import EncoderConfig, plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.config.tensor_names import affine, linear
from embedwell_models.families import heads
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.families.heads import MaskedLMHead, two_layers
from embedwell_models.positions.schemes import Disentangled, Learned, Scheme

_LAYER, _ATTENTION = "encoder.layer.{}", "encoder.layer.{}.attention.self"
UNUSED = (
    *("embeddings.position_ids", "pooler.*", "cls.*", "classifier.*", "qa_outputs.*"),
    *("lm_predictions.*", "mask_predictions.*"),
    # Checkpoints contain these tensors even if the options disable them.
    *("embeddings.position_embeddings.weight", "encoder.rel_embeddings.weight"),
    "encoder.LayerNorm.*",
)


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a DeBERTa-v2 or -v3."""
    options.require("conv_kernel_size", 0)
    scores = _position_scores(options)
    positions = _positions(
        options,
        scores,
        buckets=max(options.get("position_buckets", -1), 0),
        shared=options.get("share_att_key", False),
    )
    return _layout(options, len(scores), positions, {**_TENSORS, **_relative(options, positions)})


def first(options: JsonConfig) -> ModelSpec:
    """Build the spec of the first DeBERTa: no buckets, one matrix for queries, keys and values."""
    options.require("talking_head", False)
    scores = _position_scores(options)
    positions = _positions(options, scores, buckets=0, shared=False)
    tensors = {**_COMMON, **_FIRST_ATTENTION, **_first_relative(positions)}
    return replace(_layout(options, len(scores), positions, tensors), by_head=True)


def _layout(
    options: JsonConfig, scores: int, positions: Scheme, tensors: Mapping[str, str]
) -> ModelSpec:
    # scores: how many are added to that of contents, in pos_att_type.
    width, heads = options["hidden_size"], options["num_attention_heads"]
    options.require("embedding_size", width)
    options.require("attention_head_size", width // heads)
    learned = options.get("position_biased_input", True)
    segments = options.get("type_vocab_size", 0) > 0
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=width,
        num_layers=options["num_hidden_layers"],
        num_heads=heads,
        intermediate_size=options["intermediate_size"],
        max_positions=options["max_position_embeddings"],
        activation=options.choice("hidden_act", ACTIVATIONS, "gelu"),
        norm_eps=options.get("layer_norm_eps", 1e-7),
        input_positions=Learned() if learned else Scheme(),
        positions=positions,
        segments=segments,
        scale=(width // heads * (1 + scores)) ** -0.5,
    )
    return ModelSpec(
        config=config,
        tensors={**tensors, **_inputs(learned, segments)},
        unused=UNUSED,
        prefixes=("deberta.",),
    )


def _position_scores(options: JsonConfig) -> set[str]:
    # Scores that are added to the content-to-content score.
    kinds: Any = options.get("pos_att_type", [])
    kinds = kinds.lower().split("|") if isinstance(kinds, str) else kinds
    added = {kind.strip() for kind in kinds} - {"", "none"}
    if added - {"c2p", "p2c"}:
        raise options.unsupported("pos_att_type", sorted(added), ("c2p", "p2c"))
    return added


def _positions(options: JsonConfig, added: set[str], *, buckets: int, shared: bool) -> Scheme:
    if not added or not options.get("relative_attention", False):
        return Scheme()
    longest = options.get("max_relative_positions", -1)
    return Disentangled(
        buckets=buckets,
        max_distance=longest if longest > 0 else options["max_position_embeddings"],
        content_to_position="c2p" in added,
        position_to_content="p2c" in added,
        shared=shared,
    )


_COMMON = {
    "embeddings.word_embeddings.weight": "token_table",
    **affine("embeddings.LayerNorm", "norm"),
    **affine(f"{_LAYER}.attention.output.dense", "layers.{}.output"),
    **affine(f"{_LAYER}.attention.output.LayerNorm", "layers.{}.attention_norm"),
    **affine(f"{_LAYER}.intermediate.dense", "layers.{}.up"),
    **affine(f"{_LAYER}.output.dense", "layers.{}.down"),
    **affine(f"{_LAYER}.output.LayerNorm", "layers.{}.ffn_norm"),
}
_TENSORS = {
    **_COMMON,
    **affine(f"{_ATTENTION}.query_proj", "layers.{}.query"),
    **affine(f"{_ATTENTION}.key_proj", "layers.{}.key"),
    **affine(f"{_ATTENTION}.value_proj", "layers.{}.value"),
}
_FIRST_ATTENTION = {
    **linear(f"{_ATTENTION}.in_proj", "layers.{}.query|key|value"),
    f"{_ATTENTION}.q_bias": "layers.{}.query.bias",
    f"{_ATTENTION}.v_bias": "layers.{}.value.bias",
}


def _inputs(learned: bool, segments: bool) -> dict[str, str]:
    position = {"embeddings.position_embeddings.weight": "position_table"}
    segment = {"embeddings.token_type_embeddings.weight": "segment_table"}
    return {**(position if learned else {}), **(segment if segments else {})}


def _relative(options: JsonConfig, positions: Scheme) -> dict[str, str]:
    if not isinstance(positions, Disentangled):
        return {}
    tensors = {"encoder.rel_embeddings.weight": "relative_table"}
    if "layer_norm" in options.get("norm_rel_ebd", "none").lower().split("|"):
        tensors |= affine("encoder.LayerNorm", "relative_norm")
    if positions.content_to_position and not positions.shared:
        tensors |= affine(f"{_ATTENTION}.pos_key_proj", "layers.{}.position_key")
    if positions.position_to_content and not positions.shared:
        tensors |= affine(f"{_ATTENTION}.pos_query_proj", "layers.{}.position_query")
    return tensors


def _first_relative(positions: Scheme) -> dict[str, str]:
    if not isinstance(positions, Disentangled):
        return {}
    tensors = {"encoder.rel_embeddings.weight": "relative_table"}
    if positions.content_to_position:
        tensors |= linear(f"{_ATTENTION}.pos_proj", "layers.{}.position_key")
    if positions.position_to_content:
        tensors |= affine(f"{_ATTENTION}.pos_q_proj", "layers.{}.position_query")
    return tensors


def _masked_lm_head(options: JsonConfig, config: EncoderConfig) -> MaskedLMHead:
    options.require("legacy", True)
    return heads.BERT_MASKED_LM(options, config)


_HEAD = two_layers("pooler.dense", "classifier", None, "pooler_hidden_act")
FAMILIES = (
    Family(
        model_types=("deberta",),
        read=first,
        classification_head=_HEAD,
        masked_lm_head=_masked_lm_head,
        tokenizer_override="prefix_space",
        row=DocsRow(
            "DeBERTa v1",
            "nli-deberta-base, deberta-xlarge-mnli",
            positions="disentangled",
            layers="post-norm",
        ),
    ),
    Family(
        model_types=("deberta-v2",),
        read=read,
        classification_head=_HEAD,
        masked_lm_head=_masked_lm_head,
        tokenizer_override="nothing",
        row=DocsRow(
            "DeBERTa v2, v3",
            "mDeBERTa, mxbai-rerank v1",
            positions="disentangled",
            layers="post-norm",
        ),
    ),
)
