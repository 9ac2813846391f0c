"""Tests of recorded passes on a GPU."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.batch_shape import BatchShape, PassPlan, RecordedShapes
from embedwell_models.torch_backend.cuda_graphs import (
    RECORDED_SHAPES,
    CudaGraphRecorder,
    CudaGraphRunner,
    EagerRunner,
    Forward,
    Rehearsal,
)
from embedwell_models.torch_backend.encoder import InputEmbeddings, TorchEncoder
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import TorchLinearFactory
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.vectors import normalize
from tests.gpu.card import since_ampere
from tests.models.families.checkpoint import Case, write
from tests.models.torch_backend.encoders import CASES, RELATIVE_CASES

pytestmark = [pytest.mark.gpu, since_ampere]

SIZES = {  # heads of 16 and an odd number of layers, so that a wrong buffer shows
    "vocab_size": 99,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
}


class PaddedPositionTable(EagerRunner):
    """Runner that launches kernels one by one in the recorded shapes."""

    def shape(self, lengths: Sequence[int]) -> BatchShape:
        least = super().shape(lengths)
        return next((shape for shape in RECORDED_SHAPES if shape.holds(least)), least)


def batches() -> list[Batch]:
    """Batches of all sizes in a mixed order, so that each batch finds the data of a larger one."""
    noise = np.random.default_rng(5)
    sizes = [
        [1000],
        [1],
        [20] * 50,
        [4] * 4,
        [300, 2],
        [15],
        [1] * 64,
        [200, 17, 3],
        [2] * 5,
        [128] * 32,
    ]
    sizes += [noise.integers(1, 30, count).tolist() for count in (1, 2, 5, 20, 40, 80)]
    return [Batch.of([noise.integers(6, 99, length) for length in lengths]) for lengths in sizes]


@pytest.mark.parametrize("case", CASES + RELATIVE_CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_replayed_pass_has_the_bits_of_one_that_is_not(
    case: Case, dtype: torch.dtype, tmp_path: Path
) -> None:
    longer = {"max_position_embeddings": 1024} | dict(case.options)
    sizes = case.sizes if case in RELATIVE_CASES else SIZES
    write(Case(case.model_type, longer, sizes, std=0.1), tmp_path)
    device, spec = torch.device("cuda"), families.read(tmp_path)
    loaded = weights.load(tmp_path, spec)
    parts = InputEmbeddings(spec.config, loaded, device)
    layers = TorchLayers(spec.config, loaded, TorchLinearFactory(device, dtype), device)
    plan = layers.plan(RECORDED_SHAPES)
    assert plan.shapes == RECORDED_SHAPES and plan.kernels == "triton"

    recorder = CudaGraphRecorder(device)

    def worth_recording(compute: Callable[[], Tensor]) -> Rehearsal:
        return replace(recorder.rehearse(compute), seconds=0.0)

    def recorded(whole: Forward) -> CudaGraphRunner:
        outcome = RecordedShapes()
        return CudaGraphRunner(whole, device, recorder, outcome, plan, rehearse=worth_recording)

    eager, padded = TorchEncoder(parts, layers), TorchEncoder(parts, layers, PaddedPositionTable)
    graphs = TorchEncoder(parts, layers, recorded)
    graphs.warm()
    for batch in batches():
        found = graphs.vectors(batch, ["mean"])
        assert np.array_equal(found, padded.vectors(batch, ["mean"]))
        cosines = (normalize(found) * normalize(eager.vectors(batch, ["mean"]))).sum(axis=1)
        assert cosines.min() > 0.999


def test_from_a_shape_that_cannot_be_recorded_on_none_is_recorded() -> None:
    device, outcome = torch.device("cuda"), RecordedShapes()
    shapes = [BatchShape(16, 4, 16), BatchShape(32, 4, 32), BatchShape(64, 4, 64)]
    plan = PassPlan({"flash": 1}, shapes=shapes)
    table = torch.randn(99, 8, device=device)

    def forward(ids: Tensor, layout: SequenceLayout) -> Tensor:
        hidden = table[ids]
        if len(ids) == 32:
            hidden = hidden * hidden.sum().item()  # which waits for the GPU
        return hidden + layout.positions[:, None]

    graphs = CudaGraphRunner(forward, device, CudaGraphRecorder(device), outcome, plan)
    stream = torch.cuda.current_stream()
    graphs.warm()
    assert torch.cuda.current_stream() == stream
    failed = [{"tokens": rows, "texts": 4, "longest": rows} for rows in (32, 16)]
    about: dict[str, object] = {"attention": {"flash": 1}, "kernels": "triton"}
    about |= {"recorded": 1, "seconds": round(outcome.seconds, 1)}
    assert outcome.as_json() == {"state": "on", "failed": failed} | about
    assert outcome.recorded == [shapes[2]]
    torch.cuda.empty_cache()
    for lengths in ([9, 3], [20, 4], [50]):
        shape, ids = graphs.shape(lengths), np.arange(sum(lengths))
        layouts = [SequenceLayout(lengths, device, shape=shape, ids=ids) for _ in range(2)]
        expected = forward(layouts[0].ids, layouts[0])
        assert torch.equal(graphs(layouts[1]), expected)


@pytest.mark.parametrize(("cuda_graphs", "state"), [(True, "on"), (False, "off")])
def test_graphs_can_be_turned_off(minilm_folder: Path, cuda_graphs: bool, state: str) -> None:
    gpu = Embedder.load(minilm_folder, device="cuda", dtype="bfloat16", cuda_graphs=cuda_graphs)
    gpu.warm()
    found = gpu.graphs.as_json()
    assert (found["state"], found["failed"], "reason" in found) == (state, [], not cuda_graphs)
    assert (found["attention"], found["kernels"]) == ({"flash": 6}, "triton")
