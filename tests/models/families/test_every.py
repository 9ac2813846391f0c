"""Tests of a model of every family through the facade, in every precision of the processor."""

from pathlib import Path

import numpy as np
import pytest

from models import Embedder
from models.families import FAMILIES
from models.vectors import normalize
from tests.conftest import precisions
from tests.models.families.checkpoint import Case
from tests.models.families.every import EVERY, write_model

TEXTS = ["the license", "a copyright of this work, such as it is", "x", "you " * 30]
# Of random weights, in which no direction is more important than another; trained ones lose less.
LEAST = {"float32": 0.999999, "bfloat16": 0.998, "int8": 0.99}

every = pytest.mark.parametrize("case", EVERY, ids=str)


def test_there_is_a_case_for_every_family() -> None:
    others = {"clip"}  # another file around clip_text_model's
    twins = {"new": "gte", "camembert": "roberta", "xlm-roberta": "roberta"}
    known = {case.model_type for case in EVERY}
    assert {twins.get(name, name) for name in FAMILIES} - others <= known


@every
def test_every_precision_is_faithful_and_a_text_is_the_same_bits_in_every_batch(
    case: Case, tmp_path: Path
) -> None:
    write_model(case, tmp_path)
    exact = Embedder.load(tmp_path, dtype="float32")
    expected = normalize(exact.embed(TEXTS))
    for dtype in precisions():
        embedder = Embedder.load(tmp_path, dtype=dtype)
        vectors = embedder.embed(TEXTS)
        cosines = (normalize(vectors) * expected).sum(axis=1)
        assert cosines.min() >= LEAST[dtype], f"{dtype}: {cosines}"
        for text, vector in zip(TEXTS, vectors, strict=True):
            assert np.array_equal(embedder.embed([text])[0], vector)
