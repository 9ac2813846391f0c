"""Modules after the pooling, one after another."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

from embedwell_models.encoder.linear import LinearFactory
from embedwell_models.encoder.pooled_vector_head import PooledVectorHead
from embedwell_models.model_files.vector_modules import Dense, Module, Normalize, Truncate
from tests.models.encoder.linear_factories import FACTORIES, assert_equal, every_factory, numbers

WIDTH, NARROW = 32, 10
MODULES: list[Module] = [
    Dense(path="dense", inputs=WIDTH, outputs=NARROW, bias=True, activation="Tanh"),
    Truncate(5),
    Normalize(),
]
WEIGHT, BIAS = numbers(NARROW, WIDTH), numbers(NARROW, seed=2)
VECTORS = numbers(6, WIDTH, seed=3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dense").mkdir()
    arrays = {"linear.weight": WEIGHT, "linear.bias": BIAS}
    save_file(arrays, tmp_path / "dense" / "model.safetensors")
    return tmp_path


@every_factory
def test_modules_are_applied_in_their_order(folder: Path, linear: LinearFactory) -> None:
    x, weight, bias = (torch.from_numpy(each).double() for each in (VECTORS, WEIGHT, BIAS))
    whole = torch.tanh(F.linear(x, weight, bias))[:, :5]
    head = PooledVectorHead(folder, MODULES, linear)
    assert_equal(head(VECTORS), F.normalize(whole, dim=-1).numpy())
    assert_equal(head.without_last()(VECTORS), whole.numpy())


def test_without_modules_vectors_stay_as_they_are(tmp_path: Path) -> None:
    assert PooledVectorHead(tmp_path, [], FACTORIES["torch"])(VECTORS) is VECTORS


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_only_a_vector_that_is_not_finite_has_no_finite_result(folder: Path, value: float) -> None:
    vectors = VECTORS.copy()
    vectors[2, 0] = value
    modules = [*MODULES[:1], Normalize()]
    found = np.isfinite(PooledVectorHead(folder, modules, FACTORIES["kernels"])(vectors))
    assert found[[0, 1, 3, 4, 5]].all() and (np.isinf(value) or not found[2].any())
