"""What the tests of models with vectors of pages share."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from embedwell_models.config.json_config import read_json
from embedwell_models.embedder import Embedder
from tests.models.families.exact import exactly
from tests.models.random_weights import randomize


def save_randomized(model: Any, folder: Path) -> Any:
    """Save a model of transformers with random weights, and return it."""
    model.train(False)
    randomize(model)
    model.save_pretrained(folder)
    return model


def edit_processor(folder: Path, **values: Any) -> None:
    """Change options of the processor; those of images are in `image_processor`."""
    file = folder / "processor_config.json"
    file.write_text(json.dumps({**read_json(file), **values}), encoding="utf-8")


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", **{"dtype": "float32", **options})


@exactly
def token_vectors(model: Any, inputs: Any) -> Any:
    """The vectors that transformers computes for one text or image: (tokens, dim)."""
    return model(**inputs).embeddings[0]


def assert_same_alone(
    embedder: Embedder, pages: Sequence[bytes], queries: Sequence[str] = ()
) -> None:
    """Assert that each page and query alone has the same bytes as among the others."""
    for page, vectors in zip(pages, embedder.embed_pages(pages), strict=True):
        assert embedder.embed_pages([page])[0].tobytes() == vectors.tobytes()
    for query, vectors in zip(queries, embedder.embed_tokens(queries, "query"), strict=True):
        assert embedder.embed_tokens(query, "query").tobytes() == vectors.tobytes()


def assert_close_pages(folder: Path, dtype: str, pages: Sequence[bytes]) -> None:
    """Assert that a precision computes nearly the directions of float32, for random weights."""
    exact, found = (load(folder, dtype=each).embed_pages(pages) for each in ("float32", dtype))
    for vectors, expected in zip(found, exact, strict=True):
        assert (vectors * expected).sum(1).mean() > 0.95


NAME = "custom_text_proj"


def random_projection(width: int) -> torch.nn.Linear:
    """Create a projection of states of 64 numbers."""
    head = torch.nn.Linear(64, width)
    for part, seed in ((head.weight, 1), (head.bias, 2)):
        torch.nn.init.normal_(part, std=0.3, generator=torch.Generator().manual_seed(seed))
    return head


def head_tensors(head: torch.nn.Linear, name: str = NAME) -> dict[str, Tensor]:
    """The tensors of a projection by their names in a checkpoint."""
    return {f"{name}.{part}": each.detach() for part, each in head.named_parameters()}


def projected(states: Tensor, head: torch.nn.Module, width: int | None = None) -> Any:
    """The vectors of tokens: (tokens, width). width: of their first numbers; None for all."""
    return torch.nn.functional.normalize(head(states)[:, :width], dim=-1).numpy()
