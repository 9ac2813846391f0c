"""Encoders of T5 (Raffel et al. 2020, arXiv 1910.10683), mT5 (2010.11934), umT5 (2304.09151).

Each layer of an umT5 has its own buckets.
"""

from embedwell_models.config.encoder_config import plain_config
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.config.layer_spec import ACTIVATIONS
from embedwell_models.config.model_spec import ModelSpec
from embedwell_models.families.family import DocsRow, Family
from embedwell_models.positions.schemes import Buckets

_TRAINED = 512  # tokens of the longest training text; T5 has no limit
_NETWORKS = {  # name -> whether the network is gated, and its activation
    **{name: (False, name) for name in ACTIVATIONS},
    **{f"gated-{name}": (True, name) for name in ACTIVATIONS},
    "gated-gelu": (True, "gelu_new"),
}
_ATTENTION, _FFN = "encoder.block.{}.layer.0", "encoder.block.{}.layer.1"


def read(options: JsonConfig) -> ModelSpec:
    """Build the spec of a T5's encoder; a decoder in the checkpoint is ignored."""
    gated, activation = _feed_forward(options)
    shared = options["model_type"] != "umt5"
    options.require("is_decoder", False)
    config = plain_config(
        vocab_size=options["vocab_size"],
        hidden_size=options.first_of("d_model", "hidden_size"),
        num_layers=options.first_of("num_layers", "num_hidden_layers"),
        num_heads=options.first_of("num_heads", "num_attention_heads"),
        head_size=options.first_of("d_kv", "head_dim"),
        intermediate_size=options["d_ff"],
        max_positions=options.get("n_positions", _TRAINED),
        activation=activation,
        gated=gated,
        norm="rms",
        norm_eps=options.get("layer_norm_epsilon", 1e-6),
        arrangement="pre",
        positions=Buckets(
            buckets=options.get("relative_attention_num_buckets", 32),
            max_distance=options.get("relative_attention_max_distance", 128),
            shared=shared,
        ),
        scale=1.0,
    )
    return ModelSpec(
        config=config,
        tensors=_tensors(gated, shared),
        unused=("decoder.*", "lm_head.weight", "classifier.*", "classification_head.*"),
        prefixes=("transformer.",),
    )


def _feed_forward(options: JsonConfig) -> tuple[bool, str]:
    default = "relu" if options["model_type"] == "t5" else "gated-gelu"
    gated, name = options.choice("feed_forward_proj", _NETWORKS, default)
    options.require("is_gated_act", gated)
    return gated, ACTIVATIONS[options.require("dense_act_fn", name)]


def _tensors(gated: bool, shared: bool) -> dict[str, str]:
    up = {"wi_0": "gate", "wi_1": "up"} if gated else {"wi": "up"}
    return {
        "shared.weight": "token_table",
        "encoder.embed_tokens.weight": "token_table",
        f"{_ATTENTION}.SelfAttention.relative_attention_bias.weight": (
            "bias_table" if shared else "layers.{}.layer_bias_table"
        ),
        f"{_ATTENTION}.SelfAttention.q.weight": "layers.{}.query.weight",
        f"{_ATTENTION}.SelfAttention.k.weight": "layers.{}.key.weight",
        f"{_ATTENTION}.SelfAttention.v.weight": "layers.{}.value.weight",
        f"{_ATTENTION}.SelfAttention.o.weight": "layers.{}.output.weight",
        f"{_ATTENTION}.layer_norm.weight": "layers.{}.attention_norm.weight",
        **{
            f"{_FFN}.DenseReluDense.{theirs}.weight": f"layers.{{}}.{ours}.weight"
            for theirs, ours in {**up, "wo": "down"}.items()
        },
        f"{_FFN}.layer_norm.weight": "layers.{}.ffn_norm.weight",
        "encoder.final_layer_norm.weight": "final_norm.weight",
    }


FAMILIES = (
    Family(
        model_types=("t5", "mt5", "umt5"),
        read=read,
        tokenizer_override="nothing",
        row=DocsRow(
            "T5, mT5, umT5, ByT5 (encoder)",
            "GTR, sentence-T5; ByT5 after `embedwell convert`",
            positions="distance buckets, in umT5 per layer",
            layers="pre-norm (RMSNorm)",
        ),
    ),
)
