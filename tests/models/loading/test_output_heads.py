"""Heads over states that are on a device, against the same heads on the host."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from embedwell_models.config.model_options import ModelOptions
from embedwell_models.description.model_description import ModelDescription
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.device import Device
from embedwell_models.encoder.vector_modules import VectorHead
from embedwell_models.loading.loaded_model import LoadedModel
from embedwell_models.loading.output_heads import OutputComputer, choose_output_computer
from embedwell_models.loading.state_heads import with_state_functions
from embedwell_models.loading.token_id_embedder import TokenIdEmbedder
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE
from embedwell_models.outputs.text_outputs import SparseVector
from embedwell_models.precision.measurement_cache import LoadMeasurements
from embedwell_models.vectors import Floats
from tests.models.colbert import WIDTH, write_colbert
from tests.models.cross_encoder import write_cross_encoder
from tests.models.families.checkpoint import CPU, assert_close
from tests.models.families.exact import each_exactly
from tests.models.meta import META, ToHost
from tests.models.sparse_encoder import write_bge_m3
from tests.models.torch_backend.encoders import torch_encoder

LENGTHS = [3, 1, 40]
VOCABULARY_SIZE = 30
HIDDEN = 64  # of BGE-M3, whose token vectors are as wide
LATE = {"model_type": "eurobert", "classifier_pooling": "late"}
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
    place = Device("meta")
    late = with_state_functions(model.description, encoder, model.linear, place)
    return replace(model, device=place, encoder=late)


@pytest.mark.parametrize("options", [{}, LATE, {"labels": 3}], ids=str)
def test_a_gpu_computes_logits_and_the_host_gets_only_these(
    options: dict[str, Any], tmp_path: Path
) -> None:
    model = loaded(write_cross_encoder(tmp_path, **options))
    rows = [ids[:16] for ids in batch().split(batch().ids)]
    found, expected = (TokenIdEmbedder(each).encode(rows) for each in (on(CPU, model), model))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    meta = on(META, model)
    with ToHost() as received:
        TokenIdEmbedder(meta).encode(rows)
        choose_output_computer(meta)(Batch.of(rows), [DENSE])
    assert received.shapes == [(len(LENGTHS), options.get("labels", 1))] * 2


def in_arrays(model: LoadedModel) -> LoadedModel:
    """Return a model whose linear layers after the encoder are products of arrays."""

    def linear(weight: Floats, bias: Floats, activation: str = "none", *, name: str = "") -> Any:
        assert activation == "none"
        return lambda rows: rows @ weight.T + bias

    description = model.description
    encoder, _ = torch_encoder(description.encoder, CPU)
    head = VectorHead(description.path, description.recipe.modules, linear)
    return replace(model, encoder=encoder, head=head, linear=linear)


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
    return Batch.of([np.arange(6, 6 + length) % VOCABULARY_SIZE for length in LENGTHS], [1, 0, 9])


def tensors(compute: OutputComputer, names: list[str]) -> list[Tensor]:
    """Compute outputs of the batch, each as one tensor of all its texts: (n, dim) or (n, V)."""
    outputs = compute(batch(), names)
    arrays: dict[str, list[Any]] = {
        DENSE: [each.dense for each in outputs],
        MULTI: [each.multi for each in outputs],
        SPARSE: [each.sparse and weights_of_ids(each.sparse) for each in outputs],
    }
    assert {name for name in arrays if arrays[name][0] is not None} == {*names}
    return [torch.from_numpy(np.vstack(arrays[name])).double() for name in names]


def weights_of_ids(sparse: SparseVector) -> Floats:
    weights = np.zeros(VOCABULARY_SIZE, np.float32)
    weights[sparse.indices] = sparse.weights
    return weights


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
    exact = choose_output_computer(in_arrays(model))
    expected = each_exactly(tensors)(exact, names)
    for each in (model, on(CPU, model)):
        outputs = tensors(choose_output_computer(each), names)
        for ours, theirs in zip(outputs, expected, strict=True):
            assert_close(ours, theirs)
