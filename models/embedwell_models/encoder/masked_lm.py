"""Weights of a masked language model's head."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from embedwell_models.checkpoint import safetensors_files, weights
from embedwell_models.checkpoint.weights import Weights
from embedwell_models.encoder.linear import WeightAndBias
from embedwell_models.errors import ModelError
from embedwell_models.families.masked_lm_heads import MaskedLMHead
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class MaskedLMWeights:
    """Arrays and options of a head for V tokens of embedding size E.

    dense: (E, D), (E,). norm: (E,), (E,). output: (V, E), (V,). dense and norm are None for a head
    of the output alone.
    """

    dense: WeightAndBias | None
    norm: WeightAndBias | None
    output: WeightAndBias
    activation: str
    eps: float


def load_masked_lm_weights(
    folder: Path, head: MaskedLMHead, token_table: Floats, hidden: int
) -> MaskedLMWeights:
    """Read a head as float32. token_table: the output matrix of a checkpoint that has no own.

    hidden: D, the size of a hidden state.

    Raises ModelError for a tensor that is missing or of a wrong shape.
    """
    optional = {f"{head.output}.weight", f"{head.output}.bias", head.output_bias}
    read: dict[str, Floats] = {}
    for name, tensor in weights.iterate_tensors(folder):
        # Checkpoints converted from TensorFlow name the parameters of a norm gamma and beta.
        plain = re.sub("gamma$", "weight", re.sub("beta$", "bias", name))
        if plain in head.required_tensors | optional:
            read[plain] = safetensors_files.to_finite_float32(folder, name, tensor)
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
                f"{folder}: {name} has the shape {array.shape}; config.json requires {shapes[name]}"
            )
    zeros = np.zeros(width, np.float32)
    bias = read.get(f"{head.output}.bias", read.get(head.output_bias))
    return MaskedLMWeights(
        dense=_pair(read, head.dense, zeros),
        norm=_pair(read, head.norm, zeros),
        output=(
            read.get(f"{head.output}.weight", token_table),
            np.zeros(vocabulary, np.float32) if bias is None else bias,
        ),
        activation=head.activation,
        eps=head.eps,
    )


def _pair(read: Weights, name: str, zeros: Floats) -> WeightAndBias | None:
    return (read[f"{name}.weight"], read.get(f"{name}.bias", zeros)) if name else None
