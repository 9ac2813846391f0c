"""The encoders of T5 (Raffel et al. 2020, arXiv 1910.10683), mT5 (2010.11934), umT5 (2304.09151).

A layer of an umT5 has buckets of its own.
"""

from models.config.activations import ACTIVATIONS
from models.config.blueprint import Blueprint
from models.config.encoder_config import EncoderConfig
from models.config.json_config import JsonConfig
from models.positions.schemes import Buckets

_TRAINED = 512  # tokens of the longest text of the training; T5 has no limit
_NETWORKS = {  # whether there are gates, and the activation
    **{name: (False, name) for name in ACTIVATIONS},
    **{f"gated-{name}": (True, name) for name in ACTIVATIONS},
    "gated-gelu": (True, "gelu_new"),
}
_ATTENTION, _FFN = "encoder.block.{}.layer.0", "encoder.block.{}.layer.1"


def read(raw: JsonConfig) -> Blueprint:
    """The blueprint of a T5's encoder, with its decoder in the same file or not."""
    gated, activation = _feed_forward(raw)
    shared = raw["model_type"] != "umt5"
    raw.only("is_decoder", False)
    config = EncoderConfig(
        family=raw["model_type"],
        vocab_size=raw["vocab_size"],
        hidden_size=raw["d_model"],
        num_layers=raw["num_layers"],
        num_heads=raw["num_heads"],
        head_size=raw["d_kv"],
        intermediate_size=raw["d_ff"],
        max_positions=raw.get("n_positions", _TRAINED),
        activation=activation,
        gated=gated,
        norm="rms",
        norm_eps=raw.get("layer_norm_epsilon", 1e-6),
        arrangement="pre",
        positions=Buckets(
            buckets=raw.get("relative_attention_num_buckets", 32),
            max_distance=raw.get("relative_attention_max_distance", 128),
            shared=shared,
        ),
        scale=1.0,
    )
    return Blueprint(
        config=config,
        tensors=_tensors(gated, shared),
        unused=("decoder.*", "lm_head.weight", "classifier.*", "classification_head.*"),
        prefixes=("transformer.",),
    )


def _feed_forward(raw: JsonConfig) -> tuple[bool, str]:
    usual = "relu" if raw["model_type"] == "t5" else "gated-gelu"
    gated, name = raw.among("feed_forward_proj", _NETWORKS, usual)
    raw.only("is_gated_act", gated)
    return gated, ACTIVATIONS[raw.only("dense_act_fn", name)]


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
