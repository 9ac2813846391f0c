"""Sentence models of random weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st
from torch import nn

from tests.conftest import WORDS
from tests.models import tiny
from tests.models.model_files.options import configure

SENTENCES = [" ".join(WORDS[5 * i : 5 * i + 1 + 3 * i]) for i in range(7)]

WIDTH = 48


def randomised(module: nn.Module) -> nn.Module:
    noise = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.0, 0.3, generator=noise)
    return module


def write_layer_weights(folder: Path, after: Sequence[nn.Module], start: int) -> Path:
    """Save a BERT in `folder / "bert"`, and a model that weighs the states after its layers.

    after: the modules from the pooling on. start: the first layer of the mean; 0 is its input.
    """
    layers = tiny.write_bert(folder / "bert", output_hidden_states=True).config.num_hidden_layers
    weights = nn.Parameter(torch.arange(1.0, layers + 2 - start) / 2)
    weighted: Any = st.WeightedLayerPooling(WIDTH, layers, start, weights)
    encoder = st.Transformer(str(folder / "bert"))
    model = SentenceTransformer(modules=[encoder, weighted, *after], device="cpu")
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    return configure(folder / "model", output_hidden_states=True)
