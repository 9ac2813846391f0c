"""Sentence models of random weights, some with other modules for queries than for documents."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
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


def encoder(folder: Path, **config: Any) -> nn.Module:
    tiny.write_bert(folder, **config)
    module: nn.Module = st.Transformer(str(folder))
    return module


def route(query: Any, document: Any, **options: Any) -> nn.Module:
    router: nn.Module = Router.for_query_document(query, document, **options)
    return router


def two_encoders(folder: Path) -> list[nn.Module]:
    query = [
        encoder(folder / "query", hidden_size=32, num_attention_heads=2),
        st.Pooling(32, "cls"),
        randomised(st.Dense(32, WIDTH)),
    ]
    document = [encoder(folder / "document"), st.Pooling(WIDTH, "mean")]
    return [route(query, document), st.Normalize()]


def after_the_pooling(folder: Path) -> list[nn.Module]:
    query, document = [randomised(st.Dense(WIDTH, 9))], [randomised(st.Dense(WIDTH, 9, bias=False))]
    router = route(query, document)
    return [encoder(folder / "bert"), st.Pooling(WIDTH, "mean"), router, st.Normalize()]


def two_routers(folder: Path) -> list[nn.Module]:
    shared = [encoder(folder / "bert")]
    poolings = [st.Pooling(WIDTH, "mean")], [st.Pooling(WIDTH, "lasttoken")]
    return [route(shared, shared), route(*poolings)]


def save(folder: Path, build: Callable[[Path], list[nn.Module]], **options: Any) -> Any:
    """Save a model in `folder / "model"`, which is returned. options: further arguments."""
    model = SentenceTransformer(modules=build(folder), device="cpu", **options)
    model.save_pretrained(str(folder / "model"), create_model_card=False)
    return model
