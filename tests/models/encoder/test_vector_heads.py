"""Modules that are applied to pooled vectors and to the states of tokens."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

from embedwell_models.encoder.linear import LinearFactory
from embedwell_models.encoder.vector_heads import VectorHead
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
RESIDUAL = Dense(
    path="dense", inputs=WIDTH, outputs=NARROW, bias=False, activation="SiLU", residual=True
)
ARRAYS = {
    "linear.weight": numbers(NARROW, WIDTH),
    "residual.weight": numbers(NARROW, WIDTH, seed=2),
}


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
    head = VectorHead(folder, MODULES, linear)
    assert_equal(head(VECTORS), F.normalize(whole, dim=-1).numpy())
    assert_equal(head.without_last()(VECTORS), whole.numpy())


def test_without_modules_vectors_stay_as_they_are(tmp_path: Path) -> None:
    assert VectorHead(tmp_path, [], FACTORIES["torch"])(VECTORS) is VECTORS


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_only_a_vector_that_is_not_finite_has_no_finite_result(folder: Path, value: float) -> None:
    vectors = VECTORS.copy()
    vectors[2, 0] = value
    modules = [*MODULES[:1], Normalize()]
    found = np.isfinite(VectorHead(folder, modules, FACTORIES["kernels"])(vectors))
    assert found[[0, 1, 3, 4, 5]].all() and (np.isinf(value) or not found[2].any())


def token_head(folder: Path, linear: LinearFactory) -> VectorHead:
    (folder / "dense").mkdir()
    save_file(ARRAYS, folder / "dense" / "model.safetensors")
    return VectorHead(folder, [RESIDUAL, Normalize()], linear)


@every_factory
def test_vectors_of_tokens_are_those_of_torch(linear: LinearFactory, tmp_path: Path) -> None:
    states = numbers(33, WIDTH, seed=3)
    arrays = (states, *ARRAYS.values())
    x, weight, residual = (torch.from_numpy(array).double() for array in arrays)
    expected = F.normalize(F.silu(F.linear(x, weight)) + F.linear(x, residual), dim=-1)
    assert_equal(token_head(tmp_path, linear)(states), expected.numpy())


@every_factory
def test_a_token_has_the_same_bytes_alone_and_among_others(
    linear: LinearFactory, tmp_path: Path
) -> None:
    apply, states = token_head(tmp_path, linear), numbers(70, WIDTH, seed=3)
    alone = np.concatenate([apply(row[None]) for row in states])
    assert apply(states).tobytes() == alone.tobytes()
