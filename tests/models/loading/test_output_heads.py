"""Heads over states that are on a device, against the same heads on the host."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.device import Device
from embedwell_models.loading.loaded_model import LoadedModel
from embedwell_models.loading.output_heads import choose_output_computer
from embedwell_models.loading.token_id_embedder import TokenIdEmbedder
from embedwell_models.model_description import ModelDescription
from embedwell_models.model_options import ModelOptions
from embedwell_models.output_names import DENSE, MULTI, SPARSE
from embedwell_models.outputs import TextOutputs
from embedwell_models.precision.measurement_cache import LoadMeasurements
from tests.models.colbert import WIDTH, write_colbert
from tests.models.families.checkpoint import CPU
from tests.models.meta import META, ToHost
from tests.models.sparse_encoder import write_bge_m3
from tests.models.torch_backend.encoders import torch_encoder

LENGTHS = [3, 1, 40]
HIDDEN = 64  # of BGE-M3, whose token vectors are as wide
Write = Callable[[Path], Path]


def write_dense(folder: Path) -> Path:
    write_colbert(folder, dense={"bias": True})
    return folder / "model"


CASES = [
    pytest.param(write_dense, [MULTI], WIDTH * sum(LENGTHS), id="colbert"),
    pytest.param(write_bge_m3, [DENSE, SPARSE], 3 * HIDDEN + sum(LENGTHS), id="bge-m3-sparse"),
    pytest.param(
        *(write_bge_m3, [DENSE, SPARSE, MULTI], 3 * HIDDEN + (1 + HIDDEN) * sum(LENGTHS)),
        id="bge-m3",
    ),
]


def loaded(folder: Path) -> LoadedModel:
    description = ModelDescription.read(folder)
    options = ModelOptions(device="cpu", dtype="float32", isa="none", cuda_graphs=False)
    return LoadedModel.load(description, options, LoadMeasurements("float32", (), "", None))


def on(device: torch.device, model: LoadedModel) -> LoadedModel:
    """Return a model whose states are on another device than the host's."""
    encoder, _ = torch_encoder(model.description.encoder, device)
    return replace(model, device=Device("meta"), encoder=encoder)


def test_a_gpu_is_warm_for_every_output(tmp_path: Path) -> None:
    model = TokenIdEmbedder(on(META, loaded(write_bge_m3(tmp_path))))
    with ToHost() as received:
        model.warm()
    each = [[(1, HIDDEN), (length,), (length * HIDDEN,)] for length in (2, 32, 64)]
    assert received.shapes == [(4, HIDDEN), *chain(*each)]


def test_a_gpu_is_warm_for_queries_that_are_filled_up(tmp_path: Path) -> None:
    expansion = {"strategy": "fixed", "length": 12}
    write_colbert(tmp_path, expansion=expansion)
    model = TokenIdEmbedder(on(META, loaded(tmp_path / "model")))
    assert model.multi_vector and model.multi_vector.unattended_id
    with ToHost() as received:
        model.warm()
    lengths = (4, 2, 2, 32, 32, *[min(64, model.max_length)] * 2)
    assert received.shapes == [(length * WIDTH,) for length in lengths]


def batch() -> Batch:
    return Batch.of([np.arange(6, 6 + length) % 30 for length in LENGTHS], [1, 0, 9])


def assert_close(found: TextOutputs, expected: TextOutputs) -> None:
    for name in (DENSE, MULTI):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert (found.sparse is None) == (expected.sparse is None)
    if found.sparse is not None and expected.sparse is not None:
        assert np.array_equal(found.sparse.indices, expected.sparse.indices)
        np.testing.assert_allclose(found.sparse.weights, expected.sparse.weights, rtol=1e-4)


@pytest.mark.parametrize(("write", "names", "numbers"), CASES)
def test_the_host_receives_only_the_outputs(
    write: Write, names: list[str], numbers: int, tmp_path: Path
) -> None:
    compute = choose_output_computer(on(META, loaded(write(tmp_path))))
    with ToHost() as received:
        compute(batch(), names)
    assert [int(np.prod(shape)) for shape in received.shapes] == [numbers]


@pytest.mark.parametrize(("write", "names", "numbers"), CASES)
def test_outputs_are_those_of_states_that_the_host_has(
    write: Write, names: list[str], numbers: int, tmp_path: Path
) -> None:
    model = loaded(write(tmp_path))
    host, device = (choose_output_computer(each) for each in (model, on(CPU, model)))
    for found, expected in zip(device(batch(), names), host(batch(), names), strict=True):
        assert_close(found, expected)
