"""Gemma 2 rerankers by layer against what FlagEmbedding computes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedwell_models import Embedder
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.errors import ModelError
from tests.conftest import precisions
from tests.models.families.exact import assert_near, exactly
from tests.models.layerwise_reranker import (
    COST_WISE_GEMMA,
    LAYERS,
    START,
    Published,
    write_layerwise,
)

PROMPT = "Predict whether passage B contains an answer to query A."
PAIRS = [
    ("What is rust?", "A fungus of plants."),
    ("the license of this work", "x"),
    ("  a query with spaces \n", "\n a document of the license. \n"),
    ("you may copy the work " * 300, "any license of the work " * 300),
    ("the the", ""),
]


def load(folder: Path, **options: Any) -> Embedder:
    return Embedder.load(folder, device="cpu", **{"dtype": "float32", **options})


def edit(folder: Path, **options: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **options}))


@pytest.mark.parametrize("layer", [None, *range(START, LAYERS)])
def test_the_state_of_the_layer_scores_with_the_first_head(
    layer: int | None, tmp_path: Path
) -> None:
    folder = write_layerwise(tmp_path, COST_WISE_GEMMA)
    if layer is not None:
        edit(folder, cutoff_layers=[layer])
    published = Published(folder, PROMPT)
    expected = exactly(published.scores)(PAIRS, 512 - 2 * published.end, layer or LAYERS)
    assert 1.0 < abs(expected.values).max() <= 2.0  # the bound of this model shows
    assert_near(load(folder).score(PAIRS), expected)


def test_a_pair_is_the_same_bits_alone_and_in_a_batch(tmp_path: Path) -> None:
    embedder = load(write_layerwise(tmp_path, COST_WISE_GEMMA))
    alone = [embedder.score([pair])[0] for pair in PAIRS]
    assert np.array_equal(embedder.score(PAIRS), np.stack(alone))


def test_every_precision_is_near_float32(tmp_path: Path) -> None:
    folder = write_layerwise(tmp_path, COST_WISE_GEMMA)
    exact = load(folder).score(PAIRS)
    for dtype in precisions():
        scores = load(folder, dtype=dtype).score(PAIRS)
        assert np.corrcoef(scores[:, 0], exact[:, 0])[0, 1] > 0.9, dtype


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"compress_ratio": 2}, "compress_ratio = 2 is not supported"),
        ({"layer_wise": False}, "layer_wise"),
        ({"layer_sep": 2, "cutoff_layers": [3]}, r"cutoff_layers = \[3\] .*one of \[2, 4\]"),
    ],
    ids=str,
)
def test_what_would_change_the_scores_is_refused_by_name(
    options: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    folder = write_layerwise(tmp_path, COST_WISE_GEMMA)
    edit(folder, **options)
    with pytest.raises(ModelError, match=problem):
        ModelDescription.read(folder)


def test_every_key_of_the_published_config_is_read(tmp_path: Path) -> None:
    folder = write_layerwise(tmp_path, COST_WISE_GEMMA, cache_implementation="hybrid")
    assert ModelDescription.read(folder).spec.unread_keys == ()
