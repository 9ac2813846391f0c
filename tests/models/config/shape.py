"""Configurations of encoders."""

from typing import Any

from embedwell_models.config.encoder_config import EncoderConfig, plain_config


def shape(**different: Any) -> EncoderConfig:
    sizes = {
        "family": "bert",
        "vocab_size": 100,
        "hidden_size": 48,
        "num_layers": 3,
        "num_heads": 4,
        "intermediate_size": 80,
        "max_positions": 64,
        "norm_eps": 1e-12,
    }
    return plain_config(**{**sizes, **different})
