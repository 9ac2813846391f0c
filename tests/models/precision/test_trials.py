"""Tests of the choice among precisions."""

import math
import weakref
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from embedwell_models.cpu_backend.quantization import Calibration
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import Encoder
from embedwell_models.errors import ModelError
from embedwell_models.precision.references import (
    JUDGED_SENTENCES,
    ODD_TEXTS,
    SENTENCES,
    ReferenceSentenceEmbedder,
)
from embedwell_models.precision.trials import (
    MIN_COSINE,
    MIN_ROUNDS,
    ROUNDS_SECONDS,
    Trial,
    build_in_precision,
)
from embedwell_models.torch_backend.encoder import InputEmbeddings
from embedwell_models.torch_backend.encoder_factory import TorchEncoderFactory
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

    half_precision: str | None = None

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

    def build_reference(self) -> Encoder:
        return self.build("float32")

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


class Varying(Machine):
    """A device on which a precision takes its time in some passes, and twice as long in others."""

    def __init__(self, slow: Sequence[bool], **precisions: tuple[float, float]) -> None:
        super().__init__(**precisions)
        self.slow, self.passes = slow, 0

    def vectors(self, encoder: Encoder) -> Floats:
        assert isinstance(encoder, Named)
        if encoder.name == "bfloat16":
            self.passes += 1
            self.now += self.slow[self.passes % len(self.slow)] * self.precisions["bfloat16"][0]
        return super().vectors(encoder)


@pytest.mark.parametrize(
    ("slow", "expected"), [([False] * 5 + [True], "bfloat16"), ([False, False, True], "float32")]
)
def test_a_speedup_counts_that_most_rounds_have(slow: Sequence[bool], expected: str) -> None:
    assert chosen(Varying(slow, float32=(0.012, 1.0), bfloat16=(0.008, 0.9999))) == expected


@pytest.mark.parametrize(
    ("bfloat16", "passes"),
    [((0.001, 1.0), MIN_ROUNDS), ((0.01, 1.0), MIN_ROUNDS), ((0.001, 0.99), 1)],
    ids=["faster", "as slow", "wrong"],
)
def test_what_is_clear_is_not_tried_for_long(bfloat16: tuple[float, float], passes: int) -> None:
    machine = Varying([False], float32=(0.01, 1.0), bfloat16=bfloat16)
    chosen(machine)
    assert machine.passes == 1 + passes


def test_auto_refuses_a_precision_that_loses_a_little_on_every_text() -> None:
    class Even(Machine):
        def vectors(self, encoder: Encoder) -> Floats:
            assert isinstance(encoder, Named)
            self.now += self.precisions[encoder.name][0]
            cosine = self.precisions[encoder.name][1]
            return np.array([[cosine, np.sqrt(1 - cosine**2)]] * 2, dtype=np.float32)

    assert chosen(Even(float32=EXACT, bfloat16=(0.01, 0.9996))) == "float32"
    assert chosen(Even(float32=EXACT, bfloat16=(0.01, 0.9998))) == "bfloat16"


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


def test_auto_does_not_try_weights_of_four_bits() -> None:
    machine = Machine(float32=EXACT, int8=(0.09, 1.0), int4=(0.01, 1.0))
    assert chosen(machine) == "int8" and "int4" not in machine.built


def test_what_is_asked_for_is_given_and_measured() -> None:
    machine = Machine(float32=EXACT, int8=(0.2, 0.9))
    choice = build_in_precision(machine, "int8", machine.vectors, clock=machine.clock)
    assert choice.dtype == "int8"
    assert choice.trials[0].dtype == "float32"
    assert choice.trials[1].cosine == pytest.approx(0.9, abs=1e-5)
    assert choice.trials[1].median_cosine == pytest.approx(0.95, abs=1e-5)
    assert choice.trials[1].speedup is None


@pytest.mark.parametrize(
    ("dtype", "cosine", "warns"),
    [
        ("int8", 0.996, False),
        ("int8", 0.994, True),
        ("bfloat16", 0.996, True),
        ("int8", math.nan, True),
    ],
)
def test_a_precision_asked_for_by_name_warns_where_it_is_inaccurate(
    dtype: str, cosine: float, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    assert chosen(Machine(float32=EXACT, **{dtype: (0.05, cosine)}), dtype) == dtype
    assert (f"{dtype}: the vectors of the reference inputs" in caplog.text) == warns
    assert ("(median " in caplog.text) == warns


@pytest.mark.parametrize(("dtype", "warns"), [("int8", True), ("float32", False)])
def test_trials_of_an_earlier_load_warn_of_the_chosen_precision_alone(
    dtype: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(float32=EXACT, int8=(0.05, 0.9))
    trials = [Trial("float32", 1.0, 1.0, 1.0), Trial("int8", 0.9, 0.95, 2.0)]
    choice = build_in_precision(machine, dtype, machine.vectors, trials, machine.clock)
    assert [*choice.trials] == trials and machine.built == [dtype]
    assert ("int8: the vectors of the reference inputs" in caplog.text) == warns


class WrongOnShortTexts(Named):
    """An encoder whose vectors of texts with few tokens are wrong, except in float32."""

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        wrong = (batch.lengths <= MOST_TOKENS_OF_SHORT) & (self.name != "float32")
        return np.stack([~wrong, wrong], axis=1).astype(np.float32)


MOST_TOKENS_OF_SHORT = 3  # one token between [CLS] and [SEP]


class Processor(Machine):
    """A processor that is wrong on short texts in lower precisions."""

    def build(self, dtype: str) -> Encoder:
        return WrongOnShortTexts(dtype)


def test_auto_refuses_a_precision_that_is_wrong_on_short_texts_alone(
    embedder: Embedder, caplog: pytest.LogCaptureFixture
) -> None:
    vectors = ReferenceSentenceEmbedder(
        lambda: embedder.tokenizer,
        embedder.config.vocab_size,
        lambda encoder, batch: encoder.vectors(batch, ["mean"]),
    )
    processor = Processor(float32=EXACT, int8=EXACT)
    choice = build_in_precision(processor, "auto", vectors)
    assert choice.dtype == "float32"
    assert choice.trials[1].cosine == 0 and choice.trials[1].median_cosine == 1
    assert build_in_precision(processor, "int8", vectors).dtype == "int8"
    assert "a cosine of only 0.00000 (median 1.00000)" in caplog.text


def test_calibration_leaves_out_odd_texts_but_the_empty_one(embedder: Embedder) -> None:
    seen: list[int] = []

    def vectors(encoder: Encoder, batch: Batch) -> Floats:
        seen.append(len(batch.lengths))
        return encoder.vectors(batch, ["mean"])

    sentences = ReferenceSentenceEmbedder(
        lambda: embedder.tokenizer, embedder.config.vocab_size, vectors
    )
    sentences.calibrate(WrongOnShortTexts("float32"))
    sentences(WrongOnShortTexts("float32"))
    assert seen == [len(SENTENCES) + 1, len(JUDGED_SENTENCES) + len(ODD_TEXTS)]


def test_no_precision_is_judged_on_what_it_was_calibrated_with_but_the_empty_text() -> None:
    assert not {*SENTENCES} & {*JUDGED_SENTENCES, *ODD_TEXTS}
    assert "" in ODD_TEXTS and "" not in SENTENCES


def test_a_vector_that_is_zero_in_both_precisions_counts_as_equal() -> None:
    machine = Machine(float32=EXACT, bfloat16=(0.01, 1.0))
    choice = build_in_precision(
        *(machine, "auto", lambda encoder: 0 * machine.vectors(encoder)), clock=machine.clock
    )
    assert choice.dtype == "bfloat16" and choice.trials[1].cosine == 1


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
    least = {"float32": 1.0, "bfloat16": 0.9998, "int8": 0.995}[any_embedder.dtype]
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
    """A GPU with bfloat16."""

    half_precision = "bfloat16"


class OldGpu(Machine):
    """A GPU without bfloat16."""

    half_precision = "float16"


class SmallGpu(Small):
    """A GPU that holds the model in bfloat16 alone."""

    half_precision = "bfloat16"


def test_a_gpu_takes_bfloat16_however_long_few_texts_take(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = Gpu(float32=EXACT, bfloat16=(0.2, 0.9996), float16=(0.1, 0.9999))
    assert chosen(machine) == "bfloat16" and not caplog.text
    assert machine.built == ["bfloat16", "float32"], "it is built once, and first"


def test_a_gpu_takes_float16_only_if_that_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    machine = Gpu(float32=EXACT, bfloat16=(0.1, 0.9994), float16=(0.1, 0.9999))
    assert chosen(machine) == "bfloat16"
    assert "bfloat16: the vectors of the reference inputs have a cosine of only" in caplog.text
    assert chosen(machine, "float16") == "float16"


@pytest.mark.parametrize(
    ("cosine", "expected"), [(0.9999, "float16"), (0.999, "float32"), (math.nan, "float32")]
)
def test_a_gpu_without_bfloat16_takes_float16_if_that_is_faithful(
    cosine: float, expected: str
) -> None:
    machine = OldGpu(float32=EXACT, float16=(0.1, cosine))
    assert chosen(machine) == expected
    assert machine.most_alive == 2 and machine.built[:2] == ["float16", "float32"]


@pytest.mark.parametrize("wanted", ["auto", "bfloat16"])
def test_a_gpu_too_small_for_float32_holds_the_model_in_bfloat16(
    wanted: str, caplog: pytest.LogCaptureFixture
) -> None:
    machine = SmallGpu(float32=EXACT, bfloat16=(0.1, 0.9999))
    assert chosen(machine, wanted) == "bfloat16"
    assert machine.built == ["bfloat16"]
    assert "no precision is compared" in caplog.text


def test_a_device_that_is_no_cpu_computes_in_floating_point_alone() -> None:
    config = shape()
    weights = random_weights(config)
    embeddings = InputEmbeddings(config, weights, torch.device("meta"))
    other = TorchEncoderFactory(
        weights, embeddings, Calibration(lambda encoder: None), None, frozenset()
    )
    assert other.half_precision == "float16"
    assert other.supported() == ["float32", "float16"]
    with pytest.raises(ModelError, match=r"int8 is not .* this meta \(it is for CPUs\); .*float16"):
        other.check("int8")
