"""Build the position hooks of an encoder's input and of its layers."""

import torch
import torch.nn.functional as F
from torch import Tensor

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.layer_spec import AttentionSpec
from embedwell_models.cpu_backend.input_tables import position_table
from embedwell_models.positions import schemes, tables
from embedwell_models.torch_backend.position_hooks import (
    Alibi,
    Buckets,
    Disentangled,
    PaddedPositionTable,
    PositionHooks,
    PositionTable,
    TransformerXL,
)
from embedwell_models.torch_backend.rotary import Rotary, RotatePairs, rotate_pairs
from embedwell_models.torch_backend.tensors import Tensors


def input_position_hooks(
    config: EncoderConfig, arrays: Weights, device: torch.device
) -> PositionHooks:
    """Build the hooks of the positions that are added to the token vectors."""
    array, padding = position_table(config, arrays)
    if array is None:
        return PositionHooks()
    table = torch.from_numpy(array).to(device)
    return PositionTable(table) if padding < 0 else PaddedPositionTable(table, padding)


def layer_position_hooks(  # noqa: PLR0913 - one is keyword-only
    config: EncoderConfig,
    weights: Tensors,
    name: str,
    attention: AttentionSpec,
    like: Tensor,
    *,
    rotate_pairs: RotatePairs = rotate_pairs,
) -> PositionHooks:
    """Build the hooks of the attention of one layer.

    name: prefix of the layer's tensors. like: any tensor of the layers' device and dtype.
    """
    match scheme := attention.positions:
        case schemes.Rotary():
            return Rotary(scheme, rotate_pairs)
        case schemes.Alibi():
            slopes = tables.alibi_slopes(attention.heads, scheme.steepest)
            return Alibi(scheme, torch.from_numpy(slopes).to(like.device))
        case schemes.Buckets():
            layer = "" if scheme.shared else name
            table = weights["bias_table" if scheme.shared else f"{name}.layer_bias_table"]
            return Buckets(scheme, table.to(like.device), layer)
        case schemes.Disentangled():
            return _disentangled(config, scheme, weights, name, like)
        case schemes.TransformerXL():
            split = (attention.heads, attention.head_size, -1)
            # The query already includes its own bias.
            shift = weights[f"{name}.position_bias"] - weights[f"{name}.query.bias"]
            weight = weights[f"{name}.relative.weight"].view(split).to(like)
            return TransformerXL(scheme, weight, shift.view(split[:2]).to(like))
    return PositionHooks()


def _disentangled(
    config: EncoderConfig,
    scheme: schemes.Disentangled,
    weights: Tensors,
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
        if f"{name}.weight" not in weights:  # the checkpoint does not add this score
            return table.new_zeros(0)
        rows = F.linear(table, weights[f"{name}.weight"], weights.get(f"{name}.bias"))
        return rows.view(len(table), config.attention.heads, -1).to(like)

    return Disentangled(scheme, project("query"), project("key"))
