"""Heads on the device of the states, against the same on arrays."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder import vector_modules
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.loading.backends import HostLinearFactory
from embedwell_models.loading.state_heads import with_state_functions
from embedwell_models.model_files.vector_modules import (
    ACTIVATIONS,
    Dense,
    LayerNorm,
    LogitScore,
    Module,
    Normalize,
    TanhInt8,
    Truncate,
)
from embedwell_models.torch_backend.device_heads import (
    load_head,
    normalize,
    of_tokens,
)
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.vectors import Floats
from embedwell_models.vectors import normalize as normalize_arrays
from tests.models.cross_encoder import write_cross_encoder
from tests.models.encoder.linear_factories import FACTORIES, numbers
from tests.models.families.checkpoint import CPU
from tests.models.meta import META, OnDevice, ToHost
from tests.models.torch_backend.encoders import torch_encoder

WIDTH, NARROW = 32, 10
LENGTHS = (3, 1, 40)


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
    found = load_head(folder, [module], CPU)(torch.from_numpy(rows)).numpy()
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


@pytest.mark.parametrize("bias", [False, True])
def test_a_norm_and_the_score_of_two_tokens_are_those_of_arrays(bias: bool, tmp_path: Path) -> None:
    norm = LayerNorm(path="", inputs=WIDTH, bias=bias, eps=0.1, tensor="head.weight")
    ids = {"true_id": 4, "false_id": 2}
    score = LogitScore(path="", inputs=WIDTH, vocabulary=9, tensors=("table",), **ids)
    arrays = {name: numbers(*shape, seed=len(name)) for name, shape in norm.shapes.items()}
    save_file({**arrays, "table": numbers(9, WIDTH, seed=5)}, tmp_path / "model.safetensors")
    for module in (norm, score):
        assert_as_on_the_host(tmp_path, module, numbers(9, WIDTH, seed=3))


@pytest.mark.parametrize("module", [Truncate(NARROW), TanhInt8()])
def test_modules_without_weights_are_those_of_arrays(module: Module, tmp_path: Path) -> None:
    assert_as_on_the_host(tmp_path, module, numbers(9, WIDTH, seed=3))


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1.0, 1e30])
def test_unit_length_neither_overflows_nor_divides_by_zero(scale: float, tmp_path: Path) -> None:
    rows = numbers(5, WIDTH, scale=1.0) * np.float32(scale)
    found = load_head(tmp_path, [Normalize()], CPU)(torch.from_numpy(rows)).numpy()
    np.testing.assert_allclose(found, normalize_arrays(rows), rtol=1e-5)


def test_only_a_row_that_is_not_finite_has_no_finite_unit_length() -> None:
    rows = torch.ones(3, WIDTH)
    rows[1, 0] = float("inf")
    assert normalize(rows).isfinite().all(dim=1).tolist() == [True, False, True]


def test_rows_without_tokens_are_left_out_on_the_device(tmp_path: Path) -> None:
    module = dense(tmp_path, NARROW, "Tanh")
    head = of_tokens(load_head(tmp_path, [module, Normalize()], META))
    states = torch.empty(8, WIDTH, dtype=torch.bfloat16, device=META)
    layout = SequenceLayout([3, 2], META)
    with OnDevice():  # type: ignore[no-untyped-call]
        vectors = head(states, layout)
    assert vectors.shape == (5, NARROW) and vectors.dtype == torch.float32


def batch() -> Batch:
    return Batch.of([np.arange(6, 6 + length) % 30 for length in LENGTHS])


def classifier(folder: Path, device: torch.device, type: str) -> tuple[Encoder, int]:
    """Return the encoder of a classifier, and its number of layers. type: of the model's device."""
    write_cross_encoder(folder, model_type="eurobert", classifier_pooling="late")
    encoder, layers = torch_encoder(folder, device)
    description = ModelDescription.read(folder)
    return with_state_functions(
        description, encoder, HostLinearFactory(frozenset()), Device(type)
    ), layers


def test_states_and_vectors_are_those_that_the_host_computes(tmp_path: Path) -> None:
    device, layers = classifier(tmp_path, CPU, "cuda")
    host, _ = classifier(tmp_path, CPU, "cpu")
    found, expected = (each.vectors(batch(), ["mean"]) for each in (device, host))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    for num_layers in (layers - 1, layers):
        found, expected = (each.states(batch(), num_layers) for each in (device, host))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_host_receives_only_the_pooled_vectors(tmp_path: Path) -> None:
    encoder, _ = classifier(tmp_path, META, "meta")
    with ToHost() as received:
        vectors = encoder.vectors(batch(), ["mean"])
    assert received.shapes == [(len(LENGTHS), vectors.shape[1])]
