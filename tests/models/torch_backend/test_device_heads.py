"""Functions of token states on a device, against those of arrays."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from embedwell_models.encoder import vector_modules
from embedwell_models.model_files.vector_modules import (
    ACTIVATIONS,
    Dense,
    Module,
    Normalize,
    Truncate,
)
from embedwell_models.torch_backend.device_heads import load_transform, normalize, of_tokens
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.vectors import Floats
from embedwell_models.vectors import normalize as normalize_arrays
from tests.models.encoder.linear_factories import FACTORIES, numbers
from tests.models.families.checkpoint import CPU
from tests.models.meta import META, OnDevice

WIDTH, NARROW = 32, 10


def dense(folder: Path, outputs: int, activation: str, *, residual: bool = False) -> Dense:
    """Write random weights of a Dense, and return it."""
    module = Dense(
        path="dense",
        inputs=WIDTH,
        outputs=outputs,
        bias=True,
        activation=activation,
        residual=residual,
        divisor=2.0,
        factor=3.0,
    )
    arrays = {name: numbers(*shape, seed=len(name)) for name, shape in module.shapes.items()}
    (folder / "dense").mkdir()
    save_file(arrays, folder / "dense" / "model.safetensors")
    return module


def assert_as_on_the_host(folder: Path, module: Module, rows: Floats) -> None:
    found = load_transform(folder, module, CPU)(torch.from_numpy(rows)).numpy()
    expected = vector_modules.load_transform(folder, module, FACTORIES["torch"])(rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_that_of_arrays(activation: str, tmp_path: Path) -> None:
    module = dense(tmp_path, NARROW, activation)
    assert_as_on_the_host(tmp_path, module, numbers(9, WIDTH, seed=3))


@pytest.mark.parametrize("outputs", [NARROW, WIDTH])
def test_a_residual_is_added(outputs: int, tmp_path: Path) -> None:
    module = dense(tmp_path, outputs, "Mish", residual=True)
    assert_as_on_the_host(tmp_path, module, numbers(9, WIDTH, seed=3))


def test_the_first_numbers_are_kept(tmp_path: Path) -> None:
    assert_as_on_the_host(tmp_path, Truncate(NARROW), numbers(9, WIDTH, seed=3))


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1.0, 1e30])
def test_unit_length_neither_overflows_nor_divides_by_zero(scale: float, tmp_path: Path) -> None:
    rows = numbers(5, WIDTH, scale=1.0) * np.float32(scale)
    found = load_transform(tmp_path, Normalize(), CPU)(torch.from_numpy(rows)).numpy()
    np.testing.assert_allclose(found, normalize_arrays(rows), rtol=1e-5)


def test_only_a_row_that_is_not_finite_has_no_finite_unit_length() -> None:
    rows = torch.ones(3, WIDTH)
    rows[1, 0] = float("inf")
    assert normalize(rows).isfinite().all(dim=1).tolist() == [True, False, True]


def test_rows_without_tokens_are_left_out_on_the_device(tmp_path: Path) -> None:
    module = dense(tmp_path, NARROW, "Tanh")
    head = of_tokens([load_transform(tmp_path, module, META), normalize])
    states = torch.empty(8, WIDTH, dtype=torch.bfloat16, device=META)
    layout = SequenceLayout([3, 2], META)
    with OnDevice():  # type: ignore[no-untyped-call]
        vectors = head(states, layout)
    assert vectors.shape == (5, NARROW) and vectors.dtype == torch.float32
