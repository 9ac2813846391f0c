"""Weights of a masked language model's head."""

import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from embedwell_models.checkpoint import weights
from embedwell_models.errors import ModelError
from embedwell_models.families.masked_lm_heads import MaskedLMHead
from embedwell_models.torch_backend.tensors import to_tensors


@dataclass(frozen=True)
class MaskedLMWeights:
    """Tensors and options of a head for V tokens of embedding size E.

    dense: (E, D), (E,). norm: (E,), (E,). output: (V, E), (V,).
    """

    dense: tuple[Tensor, Tensor]
    norm: tuple[Tensor, Tensor]
    output: tuple[Tensor, Tensor]
    activation: str
    eps: float


def load_masked_lm_weights(
    folder: Path, head: MaskedLMHead, token_table: Tensor, hidden: int
) -> MaskedLMWeights:
    """Read a head as float32. token_table: the output matrix of a checkpoint that has no own.

    hidden: D, the size of a hidden state.

    Raises ModelError for a tensor that is missing or of a wrong shape.
    """
    optional = {f"{head.output}.weight", f"{head.output}.bias", head.output_bias}
    read: weights.Weights = {}
    for name, tensor in weights.iterate_tensors(folder):
        # Checkpoints converted from TensorFlow name the parameters of a norm gamma and beta.
        plain = re.sub("gamma$", "weight", re.sub("beta$", "bias", name))
        if plain in head.required_tensors | optional:
            read[plain] = weights.to_finite_float32(folder, name, tensor)
    if missing := head.required_tensors - read.keys():
        raise ModelError(f"{folder}: the checkpoint lacks {sorted(missing)}")
    vocabulary, width = token_table.shape
    shapes = {
        f"{head.dense}.weight": (width, hidden),
        f"{head.dense}.bias": (width,),
        f"{head.norm}.weight": (width,),
        f"{head.norm}.bias": (width,),
        f"{head.output}.weight": (vocabulary, width),
        f"{head.output}.bias": (vocabulary,),
        head.output_bias: (vocabulary,),
    }
    for name, array in read.items():
        if array.shape != shapes[name]:
            raise ModelError(
                f"{name} has the shape {array.shape}; config.json requires {shapes[name]}"
            )
    loaded = to_tensors(read)
    zeros = torch.zeros(width)
    bias = loaded.get(f"{head.output}.bias", loaded.get(head.output_bias))
    return MaskedLMWeights(
        dense=(loaded[f"{head.dense}.weight"], loaded.get(f"{head.dense}.bias", zeros)),
        norm=(loaded[f"{head.norm}.weight"], loaded.get(f"{head.norm}.bias", zeros)),
        output=(
            loaded.get(f"{head.output}.weight", token_table),
            torch.zeros(vocabulary) if bias is None else bias,
        ),
        activation=head.activation,
        eps=head.eps,
    )
