"""Tests of the choice among precisions."""

import weakref
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from embedwell_models.embedder import Embedder
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.errors import ModelError
from embedwell_models.precision.encoder_factory import EncoderFactory
from embedwell_models.precision.trials import (
    MIN_COSINE,
    MIN_ROUNDS,
    ROUNDS_SECONDS,
    build_in_precision,
)
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.vectors import Floats
from tests.conftest import Folder, precisions
from tests.models.shapes import random_weights, shape


class Named:
    """An encoder that computes nothing and has a name."""

    def __init__(self, name: str) -> None:
        self.name, self.max_concurrent_batches, self.prefetch_depth = name, 1, 0

    def states(self, batch: Batch, num_layers: int) -> Floats:
        raise NotImplementedError

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        raise NotImplementedError

    def warm(self) -> None:
        return None


class Machine:
    """A device with given seconds and cosine to float32 for each precision."""

    min_speedup = 1.1

    def __init__(self, **precisions: tuple[float, float]) -> None:
        self.precisions, self.now = precisions, 0.0
        self.built: list[str] = []
        self.alive: weakref.WeakSet[Named] = weakref.WeakSet()
        self.most_alive = 0

    def supported(self) -> list[str]:
        return list(self.precisions)

    def check(self, dtype: str) -> None:
        assert dtype in self.precisions

    def build(self, dtype: str) -> Encoder:
        self.built.append(dtype)
        encoder = Named(dtype)
        self.alive.add(encoder)
        self.most_alive = max(self.most_alive, len(self.alive))
        return encoder

    def clock(self) -> float:
        return self.now

    def vectors(self, encoder: Encoder) -> Floats:
        assert isinstance(encoder, Named)
        seconds, cosine = self.precisions[encoder.name]
        self.now += seconds
        return np.array([[1, 0], [cosine, np.sqrt(1 - cosine**2)]], dtype=np.float32)


def chosen(machine: Machine, wanted: str = "auto") -> str:
    choice = build_in_precision(machine, wanted, machine.vectors, clock=machine.clock)
    assert isinstance(choice.encoder, Named) and choice.encoder.name == choice.dtype
    return choice.dtype


# In float32 both vectors are [1, 0].
EXACT = (0.1, 1.0)


def test_auto_is_the_fastest_that_is_faithful() -> None:
    machine = Machine(float32=EXACT, bfloat16=(0.01, 0.9999), int8=(0.001, 0.99))
    assert chosen(machine) == "bfloat16"


def test_auto_goes_as_low_as_is_faithful() -> None:
    assert chosen(Machine(float32=EXACT, bfloat16=(0.01, 0.9999), int8=(0.001, 0.9996))) == "int8"


def test_a_later_precision_must_beat_the_best_so_far() -> None:
    machine = Machine(float32=EXACT, bfloat16=(0.01, 0.9999), int8=(0.02, 0.9996))
    assert chosen(machine) == "bfloat16"


class Busy(Machine):
    """A device that sometimes stalls for half a second."""

    def __init__(self, phase: int, **precisions: tuple[float, float]) -> None:
        super().__init__(**precisions)
        self.passes = phase

    def vectors(self, encoder: Encoder) -> Floats:
        self.passes += 1
        self.now += 0.5 * (self.passes % 7 == 0)
        return super().vectors(encoder)


@pytest.mark.parametrize("phase", range(7))
def test_auto_chooses_the_same_whichever_pass_is_held_up(phase: int) -> None:
    quick = {"float32": (0.012, 1.0), "bfloat16": (0.008, 0.9999), "int8": (0.0079, 0.9999)}
    assert chosen(Busy(phase, **quick)) == "bfloat16"
    assert chosen(Busy(phase, **quick | {"int8": (0.006, 0.9999)})) == "int8"


@pytest.mark.parametrize("seconds", [0.001, 0.01, 0.1, 10.0])
def test_trials_end_after_a_moment(seconds: float) -> None:
    machine = Machine(float32=(seconds, 1.0), bfloat16=(seconds, 1.0))
    assert chosen(machine) == "float32"
    once = 2 * seconds  # each computes once before the clock counts
    most = max(ROUNDS_SECONDS + 2 * seconds, 2 * MIN_ROUNDS * seconds)
    assert machine.now - once <= most + 1e-6
    assert machine.now - once >= 2 * MIN_ROUNDS * seconds - 1e-6


def test_of_two_precisions_the_one_that_loses_is_gone_before_the_next_is_built() -> None:
    machine = Machine(float32=EXACT, bfloat16=(0.2, 1.0), float16=(0.05, 1.0), int8=(0.04, 1.0))
    choice = build_in_precision(machine, "auto", machine.vectors, clock=machine.clock)
    assert machine.most_alive == 2
    assert [*machine.alive] == [choice.encoder]


def test_auto_stays_exact_where_less_precision_is_not_faster() -> None:
    assert chosen(Machine(float32=EXACT, bfloat16=(0.1, 1.0))) == "float32"


def test_a_processor_of_one_precision_loses_no_time_on_trials() -> None:
    machine = Machine(float32=(60.0, 1.0))
    assert chosen(machine) == "float32"
    assert machine.built == ["float32"]


def test_what_is_asked_for_is_given_and_measured() -> None:
    machine = Machine(float32=EXACT, int8=(0.2, 0.9))
    choice = build_in_precision(machine, "int8", machine.vectors, clock=machine.clock)
    assert choice.dtype == "int8"
    assert choice.trials[0].dtype == "float32"
    assert choice.trials[1].cosine == pytest.approx(0.9, abs=1e-5)
    assert choice.trials[1].speedup == pytest.approx(0.5)


class Tight(Machine):
    """A device whose memory holds one encoder at a time."""

    def __init__(self, **precisions: tuple[float, float]) -> None:
        super().__init__(**precisions)
        self.last: Callable[[], Encoder | None] = lambda: None

    def build(self, dtype: str) -> Encoder:
        if self.last() is not None:
            raise torch.OutOfMemoryError("CUDA out of memory")
        made = super().build(dtype)
        self.last = weakref.ref(made)
        return made


def test_float32_is_gone_before_the_precision_that_is_asked_for_is_built() -> None:
    machine = Tight(float32=EXACT, float16=(0.1, 0.9999))
    choice = build_in_precision(machine, "float16", machine.vectors, clock=machine.clock)
    assert [trial.dtype for trial in choice.trials] == ["float32", "float16"]


class Small(Machine):
    """A device that float32 does not fit."""

    def build(self, dtype: str) -> Encoder:
        if dtype == "float32":
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().build(dtype)


def test_a_model_that_fits_in_half_precision_alone_is_had_in_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = Small(float32=EXACT, float16=(0.1, 0.9999))
    assert chosen(machine, "float16") == "float16"
    assert "no precision is compared" in caplog.text
    with pytest.raises(torch.OutOfMemoryError):
        chosen(machine, "auto")


def test_every_precision_of_this_processor_is_faithful_enough(any_embedder: Embedder) -> None:
    least = {"float32": 1.0, "bfloat16": 0.9998, "int8": 0.998}[any_embedder.dtype]
    assert any_embedder.trials[-1].dtype == any_embedder.dtype
    assert any_embedder.trials[-1].cosine >= least


@pytest.mark.full
def test_auto_keeps_its_promise_on_the_default_model() -> None:
    embedder = Embedder.load(device="cpu")
    trial = next(trial for trial in embedder.trials if trial.dtype == embedder.dtype)
    assert trial.cosine >= MIN_COSINE


def test_a_model_that_the_kernels_cannot_compute_whole_has_every_precision_too(
    tiny_bert: Folder,
) -> None:
    folder = tiny_bert()  # 48 wide
    trials = Embedder.load(folder, device="cpu").trials
    assert [trial.dtype for trial in trials] == precisions()
    assert all(trial.cosine >= 0.99 for trial in trials)


@pytest.mark.parametrize("dtype", ["float16", "float64", "", "nonsense"])
def test_another_precision_is_refused_with_the_ones_there_are(dtype: str) -> None:
    with pytest.raises(ModelError, match=f"dtype {dtype} is not supported .*: float32"):
        Embedder.load(device="cpu", dtype=dtype)


class Gpu(Machine):
    min_speedup = 0.0


def test_a_gpu_takes_the_last_precision_that_is_faithful_however_long_few_texts_take() -> None:
    assert chosen(Gpu(float32=EXACT, float16=(0.1, 0.9999), bfloat16=(0.2, 0.9996))) == "bfloat16"
    assert chosen(Gpu(float32=EXACT, float16=(0.2, 0.9999), bfloat16=(0.1, 0.9994))) == "float16"
    assert chosen(Gpu(float32=EXACT, float16=(0.01, 0.999), bfloat16=(0.01, 0.99))) == "float32"


def test_a_device_that_is_no_cpu_computes_in_floating_point_alone() -> None:
    config = shape()
    weights = random_weights(config)
    embeddings = InputEmbeddings(config, weights, torch.device("meta"))
    other = EncoderFactory(weights, embeddings, calibrate=lambda encoder: None)
    assert other.min_speedup == 0
    assert other.supported()[:2] == ["float32", "float16"]
    with pytest.raises(ModelError, match=r"int8 is not .* this meta \(it is for CPUs\); .*float16"):
        other.check("int8")
