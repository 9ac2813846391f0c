"""Activations of feed-forward networks, by their names in config.json."""

from collections.abc import Mapping

ACTIVATIONS: Mapping[str, str] = {  # name in config.json -> our name
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
    "gelu_sigmoid": "gelu_sigmoid",
    "quick_gelu": "gelu_sigmoid",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
