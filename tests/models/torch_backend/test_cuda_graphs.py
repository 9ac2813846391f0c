"""Tests of recorded passes, with a recorder that repeats what it was shown in the same memory."""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from embedwell_models import families
from embedwell_models.checkpoint import weights
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.batch_shape import BatchShape, PassPlan, RecordedShapes, rounded_rows
from embedwell_models.torch_backend.cuda_graphs import (
    RECORDED_SHAPES,
    CudaGraphRunner,
    Forward,
    Rehearsal,
)
from embedwell_models.torch_backend.encoder import InputEmbeddings, TorchEncoder
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import OneDnnLinearFactory, TorchLinearFactory
from embedwell_models.torch_backend.operators import FlashAttention, Operators
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from tests.models.families.checkpoint import CPU, Case, write
from tests.models.kernel import by_kernel
from tests.models.meta import META, OnDevice, ToHost
from tests.models.torch_backend.encoders import CASES, DYNAMIC

OPERATORS = Operators(by_kernel)
SMALL = [BatchShape(16, 2, 16), BatchShape(16, 4, 16), BatchShape(64, 4, 16), BatchShape(64, 4, 64)]
PLAN = PassPlan({"flash": 1}, shapes=SMALL)


class Recorder:
    """Recorder that counts recorded and replayed passes."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, compute: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        found = compute()
        self.recorded += 1

        def replay() -> None:
            self.replayed += 1
            found.copy_(compute())

        return replay, found


def encoders(folder: Path, record: Recorder) -> tuple[TorchEncoder, TorchEncoder]:
    """An eager encoder, and an encoder that replays passes of small shapes."""
    spec = families.read(folder)
    loaded = weights.load(folder, spec)
    parts = InputEmbeddings(spec.config, loaded, CPU)
    layers = TorchLayers(spec.config, loaded, OneDnnLinearFactory(torch.float32), CPU, OPERATORS)
    plan = layers.plan(SMALL)
    return TorchEncoder(parts, layers), TorchEncoder(
        parts, layers, lambda whole: CudaGraphRunner(whole, CPU, record, RecordedShapes(), plan)
    )


def batches() -> list[Batch]:
    """Batches of all sizes in a mixed order, so that each batch finds the data of a larger one."""
    noise = np.random.default_rng(5)
    sizes = [[16], [1], [30, 30, 4], [2], [7, 8], [5, 5, 5], [1, 1, 1, 1], [3, 3], [40], [9] * 5]
    return [Batch.of([noise.integers(6, 99, length) for length in lengths]) for lengths in sizes]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("poolings", [["mean"], ["cls", "lasttoken"]])
@pytest.mark.full(after=2)
def test_a_replayed_pass_has_the_bits_of_one_that_is_not(
    case: Case, poolings: Sequence[str], tmp_path: Path
) -> None:
    write(case, tmp_path)
    record = Recorder()
    eager, graphs = encoders(tmp_path, record)
    graphs.warm()
    assert record.recorded == len(SMALL) - (case.options is DYNAMIC)
    for batch in batches():
        assert np.array_equal(graphs.vectors(batch, poolings), eager.vectors(batch, poolings))
    long = sum(batch.lengths.max() > 24 for batch in batches()) if case.options is DYNAMIC else 0
    assert record.replayed == len(batches()) - 1 - long, "five texts fit in no shape"


def test_tokens_that_are_not_pooled_are_left_out_of_a_replayed_pass(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    eager, graphs = encoders(tmp_path, Recorder())
    graphs.warm()
    batch = Batch.of([np.arange(6, 12), np.arange(20, 23)], prompt_token_counts=[2, 1])
    assert np.array_equal(graphs.vectors(batch, ["mean"]), eager.vectors(batch, ["mean"]))


def test_threads_that_replay_at_once_do_not_take_each_others_memory(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    eager, graphs = encoders(tmp_path, Recorder())
    graphs.warm()
    some = [batch for batch in batches() if len(batch.ids) <= 64]
    expected = [eager.vectors(batch, ["mean"]) for batch in some]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda batch: graphs.vectors(batch, ["mean"]), some * 20))
    finally:
        sys.setswitchinterval(interval)
    assert all(map(np.array_equal, found, expected * 20))


def test_before_it_is_warm_and_for_some_layers_nothing_is_replayed(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    record = Recorder()
    eager, graphs = encoders(tmp_path, record)
    batch = batches()[0]
    assert np.array_equal(graphs.vectors(batch, ["mean"]), eager.vectors(batch, ["mean"]))
    graphs.warm()
    assert np.array_equal(graphs.states(batch, 2), eager.states(batch, 2))
    assert record.replayed == 0


def test_a_batch_that_limits_attention_is_neither_replayed_nor_padded(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    record = Recorder()
    eager, graphs = encoders(tmp_path, record)
    graphs.warm()
    batch = Batch.of([[7, 8, 9, 9, 9], [10, 9]]).without_attention_to_trailing(9)
    assert np.array_equal(graphs.states(batch, 3), eager.states(batch, 3))
    rows = graphs.apply(batch, lambda hidden, layout: torch.tensor([float(len(hidden))]))
    assert (rows.tolist(), record.replayed) == ([8], 0)


def test_states_after_all_layers_are_replayed(tmp_path: Path) -> None:
    write(CASES[0], tmp_path)
    record = Recorder()
    eager, graphs = encoders(tmp_path, record)
    graphs.warm()
    for batch in batches():
        assert np.array_equal(graphs.states(batch, 3), eager.states(batch, 3))
    assert record.replayed == len(batches()) - 1, "five texts fit in no shape"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_recorded_needs_nothing_of_the_host(case: Case, tmp_path: Path) -> None:
    write(case, tmp_path)
    spec = families.read(tmp_path)
    loaded = weights.load(tmp_path, spec)
    parts = InputEmbeddings(spec.config, loaded, META)
    attention = FlashAttention(torch.ops.aten._flash_attention_forward)
    layers = TorchLayers(
        spec.config,
        loaded,
        TorchLinearFactory(META, torch.bfloat16),
        META,
        Operators(lambda *_: attention),
    )

    def record(compute: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        compute()  # as a GPU's recorder does: then everything is there
        with OnDevice():  # type: ignore[no-untyped-call]
            return lambda: None, compute()

    def passes(whole: Forward) -> CudaGraphRunner:
        plan = layers.plan(SMALL)
        return CudaGraphRunner(whole, META, record, RecordedShapes(), plan)

    TorchEncoder(parts, layers, passes).warm()


class Copies(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Mode that counts copies between the host and the device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        given = [part for part in tree_leaves((args, kwargs, found)) if isinstance(part, Tensor)]
        self.count += len({part.device for part in given}) > 1
        return found


@pytest.mark.parametrize("case", [case for case in CASES if case.options is not DYNAMIC], ids=str)
@pytest.mark.parametrize("skipped", [None, [1, 0]], ids=["all tokens", "without prompts"])
@pytest.mark.parametrize("warm", [False, True], ids=["eager", "replayed"])
def test_a_pass_gets_one_copy_of_the_host_and_sends_one(
    case: Case, skipped: list[int] | None, warm: bool, tmp_path: Path
) -> None:
    write(case, tmp_path)
    spec = families.read(tmp_path)
    loaded = weights.load(tmp_path, spec)
    parts = InputEmbeddings(spec.config, loaded, META)
    attention = FlashAttention(torch.ops.aten._flash_attention_forward)
    factory = TorchLinearFactory(META, torch.bfloat16)
    layers = TorchLayers(spec.config, loaded, factory, META, Operators(lambda *_: attention))

    def record(compute: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        return lambda: None, compute()

    encoder = TorchEncoder(
        parts, layers, lambda run: CudaGraphRunner(run, META, record, RecordedShapes(), PLAN)
    )
    if warm:
        encoder.warm()
    batch = Batch.of([range(5), range(9)], skipped or ())
    for expected in (None, 2):  # the first pass also sends tables
        with ToHost(), Copies() as copies:
            pooled = encoder.vectors(batch, ["mean", "cls"])
        assert pooled.shape[0] == 2 and copies.count == (expected or copies.count)


def forward(ids: Tensor, layout: SequenceLayout) -> Tensor:
    """A forward pass of any width."""
    return ids[:, None] + layout.cu_seqlens.sum()


class FailingRecorder(Recorder):
    """Recorder that cannot record results of some numbers of rows."""

    def __init__(self, *rows: int, error: Exception) -> None:
        super().__init__()
        self.rows, self.error, self.attempts = rows, error, 0

    def __call__(self, compute: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        self.attempts += 1
        try:
            if len(compute()) in self.rows:
                raise self.error
        except RuntimeError as error:
            if "invalidated" in str(self.error):  # as torch, which cannot end the recording
                raise RuntimeError("capture_end failed") from error
            raise
        return super().__call__(compute)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried\nto allocate"),
        RuntimeError("CUDA error: operation not permitted when stream is capturing\nCompile with"),
        torch.AcceleratorError("capture invalidated"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_shape_that_cannot_be_recorded_runs_without(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    record, outcome = FailingRecorder(16, error=error), RecordedShapes()
    graphs = CudaGraphRunner(forward, CPU, record, outcome, PLAN)
    graphs.warm()
    assert outcome.seconds > 0
    assert outcome.as_json() == {
        "state": "on",
        "recorded": 2,
        "seconds": round(outcome.seconds, 1),
        "failed": [
            {"tokens": 16, "texts": 4, "longest": 16},
            {"tokens": 16, "texts": 2, "longest": 16},
        ],
        "attention": {"flash": 1},
        "kernels": "triton",
    }
    [entry] = [each for each in caplog.records if each.levelname == "WARNING"]
    first_line = str(error).partition("\n")[0]
    assert "2 of 4 batch shapes have no CUDA graph" in entry.message
    assert entry.message.endswith(f"A recording failed: {first_line}")
    assert graphs.shape([8, 8]) == BatchShape.of([8, 8]), "not the larger shape, which is slower"
    assert graphs.shape([17]) == SMALL[3]
    for lengths in ([8, 8], [17]):
        layout = SequenceLayout(
            lengths, CPU, shape=graphs.shape(lengths), ids=np.arange(sum(lengths))
        )
        expected = forward(layout.ids.clone(), layout)
        assert torch.equal(graphs(layout), expected)
    assert record.replayed == 1


def test_after_a_recording_that_failed_nothing_is_recorded() -> None:
    """torch before 2.13 would still keep memory for it."""
    record, outcome = FailingRecorder(64, error=RuntimeError("no")), RecordedShapes()
    CudaGraphRunner(forward, CPU, record, outcome, PLAN).warm()
    assert record.attempts == 1 and outcome.recorded == [] and outcome.failed == SMALL[::-1]


def test_graphs_are_off_if_no_shape_can_be_recorded() -> None:
    outcome = RecordedShapes()
    assert outcome.as_json() == {"state": "off", "failed": []}
    record = FailingRecorder(16, 64, error=RuntimeError("no"))
    graphs = CudaGraphRunner(forward, CPU, record, outcome, PLAN)
    graphs.warm()
    assert outcome.as_json()["state"] == "off" and len(outcome.as_json()["failed"]) == len(SMALL)
    assert graphs.shape([1]) == BatchShape.of([1])


def test_without_graphs_the_reason_is_known() -> None:
    outcome, plan = RecordedShapes(), PassPlan({"padded": 2}, "torch (old)", no_graphs="blocks")
    graphs = CudaGraphRunner(forward, CPU, Recorder(), outcome, plan)
    graphs.warm()
    assert outcome.as_json() == {
        "state": "off",
        "failed": [],
        "recorded": 0,
        "seconds": 0.0,
        "attention": {"padded": 2},
        "kernels": "torch (old)",
        "reason": "blocks",
    }
    assert graphs.shape([1]) == BatchShape.of([1])


def test_an_error_of_the_code_is_no_failed_recording() -> None:
    record = FailingRecorder(16, error=TypeError("wrong argument"))
    with pytest.raises(TypeError):
        CudaGraphRunner(forward, CPU, record, RecordedShapes(), PLAN).warm()


def test_the_smallest_shape_that_holds_a_batch_is_taken() -> None:
    graphs = CudaGraphRunner(forward, CPU, Recorder(), RecordedShapes(), PLAN)
    graphs.warm()
    assert graphs.shape([8, 8]) == SMALL[0]
    assert graphs.shape([1, 1, 1]) == SMALL[1]
    assert graphs.shape([1, 1, 1, 14]) == graphs.shape([16] * 4) == SMALL[2]
    assert graphs.shape([17]) == graphs.shape([64]) == graphs.shape([20, 1]) == SMALL[3]
    assert graphs.shape([65]) == BatchShape.of([65])
    assert graphs.shape([1] * 5) == BatchShape.of([1] * 5)


def test_the_recorded_shapes_go_from_small_to_large_and_each_is_of_use() -> None:
    sizes = [(shape.rows, shape.max_sequences, shape.max_length) for shape in RECORDED_SHAPES]
    assert sizes == sorted(set(sizes)) and len(sizes) == 114
    for rows, texts, longest in sizes:
        assert longest <= rows == rounded_rows(rows)
        full = [longest] * min(texts, rows // longest)
        fitting = next(each for each in RECORDED_SHAPES if each.holds(BatchShape.of(full)))
        assert (fitting.rows, fitting.max_sequences, fitting.max_length) <= (rows, texts, longest)


def test_short_texts_have_shapes_of_short_texts() -> None:
    plan = PassPlan(shapes=RECORDED_SHAPES)
    graphs = CudaGraphRunner(forward, CPU, Recorder(), RecordedShapes(), plan)
    graphs.warm()
    assert graphs.shape([20] * 50) == BatchShape(1024, 256, 32)
    assert graphs.shape([100] * 9) == BatchShape(1024, 256, 128)
    assert graphs.shape([300, 300]) == BatchShape(768, 4, 512)
    assert graphs.shape([1000]) == BatchShape(1024, 4, 1024)


LARGE = [SMALL[-1], BatchShape(2048, 4, 2048), BatchShape(4096, 64, 512), BatchShape(8192, 64, 512)]


class Rehearsals:
    """Rehearsals on a GPU with 8 GB free, on which some numbers of rows are slow or do not fit."""

    def __init__(self, slow: int = 10**9, large: int = 10**9, too_large: int = 10**9) -> None:
        self.slow, self.large, self.too_large = slow, large, too_large
        self.count = 0

    def __call__(self, compute: Callable[[], Tensor]) -> Rehearsal:
        self.count += 1
        result = compute()
        rows = len(result)
        if rows >= self.too_large:
            raise torch.OutOfMemoryError
        memory = 2 * 10**9 if rows >= self.large else 10**9
        return Rehearsal(result, memory, 8 * 10**9, 1.0, 2.0 if rows >= self.slow else 1.2)


def recorded_rows(rehearse: Rehearsals | None) -> tuple[list[int], RecordedShapes]:
    outcome, plan = RecordedShapes(), PassPlan(shapes=LARGE)
    graphs = CudaGraphRunner(forward, CPU, Recorder(), outcome, plan, rehearse=rehearse)
    graphs.warm()
    for lengths in ([60], [2000], [400] * 9, [500] * 16):
        shape = graphs.shape(lengths)
        layout = SequenceLayout(lengths, CPU, shape=shape, ids=np.arange(sum(lengths)))
        expected = forward(layout.ids.clone(), layout)
        assert torch.equal(graphs(layout), expected)
    return [shape.rows for shape in outcome.recorded], outcome


def test_large_shapes_are_recorded_where_the_gpu_waits_for_the_host_and_has_the_memory() -> None:
    every = Rehearsals()
    assert recorded_rows(every)[0] == [8192, 4096, 2048, 64]
    assert every.count == 3, "small shapes need no rehearsal"
    for some in (Rehearsals(slow=4096), Rehearsals(large=4096), Rehearsals(too_large=4096)):
        rows, outcome = recorded_rows(some)
        assert (rows, outcome.failed) == ([2048, 64], [])
    assert recorded_rows(None)[0] == [64]


def test_graphs_of_large_shapes_share_the_memory_of_their_results() -> None:
    results: list[Tensor] = []

    def record(compute: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        results.append(compute())
        return lambda: None, results[-1]

    plan = PassPlan(shapes=LARGE)
    arguments = forward, CPU, record, RecordedShapes(), plan
    CudaGraphRunner(*arguments, rehearse=Rehearsals()).warm()
    assert [len(each) for each in results] == [8192, 4096, 2048, 64]
    assert len({each.data_ptr() for each in results}) == 2


@pytest.mark.parametrize("tokens", [1025, 1300, 2049, 4000, 9000, 16384])
def test_at_most_a_fifth_of_a_large_shape_is_padding(tokens: int) -> None:
    count = tokens // 100
    lengths = [100] * count + [tokens - 100 * count] * (tokens > 100 * count)
    fitting = next(each for each in RECORDED_SHAPES if each.holds(BatchShape.of(lengths)))
    assert 0.8 * fitting.rows < tokens <= fitting.rows
    assert fitting.max_sequences * fitting.max_length == 8 * fitting.rows
