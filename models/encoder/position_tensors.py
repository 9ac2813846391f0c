"""Gives a position scheme the tensors of a checkpoint that it needs."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from models.checkpoint.weights import Weights
from models.config.encoder_config import EncoderConfig
from models.encoder.position_hooks import (
    Alibi,
    Buckets,
    Disentangled,
    Padded,
    Positions,
    Recurrent,
    Rotary,
    Table,
)
from models.positions import schemes, tables


def of_input(config: EncoderConfig, weights: Weights, device: torch.device) -> Positions:
    """The scheme of what is added to the tokens' vectors."""
    match config.table:
        case schemes.Sinusoidal() if "position_table" in weights:
            # Computed once and then saved, rounded or trained further.
            return Table(weights["position_table"].to(device))
        case schemes.Learned(offset=0):
            return Table(weights["position_table"].to(device))
        case schemes.Learned(padding=padding):
            return Padded(weights["position_table"][padding:].to(device), padding)
        case schemes.Sinusoidal(base=base):
            rows = np.arange(config.max_positions)
            table = tables.sinusoidal(rows, config.embedding_size, base)
            return Table(torch.from_numpy(table).to(device))
    return Positions()


def of_layer(
    config: EncoderConfig,
    weights: Weights,
    name: str,
    scheme: schemes.Scheme,
    like: Tensor,
) -> Positions:
    """The scheme of the attention in the layer of a name.

    like: any tensor on the layers' device, of their precision.
    """
    match scheme:
        case schemes.Rotary():
            return Rotary(scheme)
        case schemes.Alibi():
            slopes = tables.alibi_slopes(config.num_heads, scheme.steepest)
            return Alibi(scheme, torch.from_numpy(slopes).to(like.device))
        case schemes.Buckets():
            own = "" if scheme.shared else name
            table = weights["bias_table" if scheme.shared else f"{name}.layer_bias_table"]
            return Buckets(scheme, table.to(like.device), own)
        case schemes.Disentangled():
            return _disentangled(config, scheme, weights, name, like)
        case schemes.Recurrent():
            split = (config.num_heads, config.head_size, -1)
            # The query's own bias is in its product already.
            shift = weights[f"{name}.position_bias"] - weights[f"{name}.query.bias"]
            weight = weights[f"{name}.relative.weight"].view(split).to(like)
            return Recurrent(scheme, weight, shift.view(split[:2]).to(like))
    return Positions()


def _disentangled(
    config: EncoderConfig,
    scheme: schemes.Disentangled,
    weights: Weights,
    layer: str,
    like: Tensor,
) -> Disentangled:
    table = weights["relative_table"]
    if "relative_norm.weight" in weights:
        weight, bias = (weights[f"relative_norm.{part}"] for part in ("weight", "bias"))
        table = F.layer_norm(table, table.shape[1:], weight, bias, config.norm_eps)
    before = "" if scheme.shared else "position_"

    def project(part: str) -> Tensor:
        name = f"{layer}.{before}{part}"
        if f"{name}.weight" not in weights:  # a score that this checkpoint does not add
            return table.new_zeros(0)
        rows = F.linear(table, weights[f"{name}.weight"], weights.get(f"{name}.bias"))
        return rows.view(len(table), config.num_heads, -1).to(like)

    return Disentangled(scheme, project("query"), project("key"))
