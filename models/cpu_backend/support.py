"""The models that the kernels can compute."""

import re

from models.checkpoint.weights import Weights
from models.config.encoder_config import EncoderConfig
from models.cpu_backend.layer_weights import NORMS
from models.positions.schemes import Alibi, Buckets, Rotary, Scheme

_SUPPORTED_TENSORS = {
    *("token_table", "position_table", "segment_table", "bias_table", "norm", "final_norm"),
    *("query", "key", "value", "output", "gate", "up", "down", "query_norm", "key_norm"),
    *("attention_norm", "ffn_norm", "attention_output_norm", "ffn_output_norm"),
}


def kernels_support(config: EncoderConfig, weights: Weights) -> bool:
    """Whether the kernels can compute a model."""
    tensors = {re.sub(r"^layers\.\d+\.|\.(weight|bias)$", "", name) for name in weights}
    return tensors <= _SUPPORTED_TENSORS and all(
        (
            config.hidden_size % 64 == config.intermediate_size % 64 == config.head_size % 32 == 0,
            config.num_heads * config.head_size % 64 == 0,
            config.embedding_size == config.hidden_size,
            config.distinct_layers == config.num_layers,
            config.arrangement in NORMS,
            not config.softcap,
            _has_kernel(config.positions),
            config.local_positions is None
            or _have_equal_rows(config.positions, config.local_positions),
            all(
                len(weight) == config.head_size
                for name, weight in weights.items()
                if name.endswith(("query_norm.weight", "key_norm.weight"))
            ),
        )
    )


def _has_kernel(scheme: Scheme) -> bool:
    return type(scheme) in (Scheme, Alibi, Buckets) or _is_rotary(scheme)


def _is_rotary(scheme: Scheme) -> bool:
    # Dynamic scaling rotates each text differently.
    return isinstance(scheme, Rotary) and scheme.scaling.kind != "dynamic"


def _have_equal_rows(*schemes: Scheme) -> bool:
    # Rows of LongRoPE depend on its original length, and a token has one row for all layers.
    return all(
        isinstance(scheme, Rotary) and scheme.scaling.kind not in ("dynamic", "longrope")
        for scheme in schemes
    )
