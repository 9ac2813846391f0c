"""Long texts, whose keys are multiplied in blocks, and forward passes on many threads."""

from dataclasses import replace

import numpy as np
import pytest

from embedwell_models.encoder.batch import Batch
from tests.models.built import LAYOUTS, layouts
from tests.models.cpu_backend.pair import Pair, batch, error
from tests.models.shapes import KINDS
from tests.models.threads import use_threads

CLOSE = {"float32": 3e-6, "bfloat16": 0.015, "int8": 0.05}  # of the length of what is expected
PACKED = 1024  # keys of a block, see attention.h
LONG = ["modern", "llama", "one head of keys", "gemma 2", "t5", "jina", "deberta", "xlnet"]
MANY = [
    *LONG,
    "eva",
    "gates",
    "lfm2",
    "lfm2.5",
    "qwen3.5",
    "experts",
    "gpt-neox",
    "relative window",
]


@layouts
@pytest.mark.parametrize("length", [PACKED + 1, 2 * PACKED + 300])
@pytest.mark.parametrize("kind", LONG)
@pytest.mark.full(after=2)
def test_a_long_text_equals_its_twin(kernels: str, dtype: str, kind: str, length: int) -> None:
    pair, text = Pair.of(kernels, dtype, kind), batch([length])
    last = pair.config.num_layers
    actual, expected = (each.states(text, last) for each in (pair.ours, pair.twin))
    assert error(actual, expected) < CLOSE[dtype]


@layouts
@pytest.mark.parametrize("kind", ["modern", "llama", "deberta"])
@pytest.mark.full(after=1)
def test_keys_of_a_long_text_that_are_not_attended_to_equal_their_twin(
    kernels: str, dtype: str, kind: str
) -> None:
    pair = Pair.of(kernels, dtype, kind)
    text = replace(batch([3000, 2000]), key_counts=np.array([PACKED, 5]))
    last = pair.config.num_layers
    actual, expected = (each.states(text, last) for each in (pair.ours, pair.twin))
    assert error(actual, expected) < CLOSE[dtype]


# Instruction sets share the code that divides work among threads: one has all kinds, others a few.
FULL_ISA = next(iter(LAYOUTS.values()), ("", ""))[0]
DIVIDED = [
    pytest.param(isa, dtype, kind, id=f"{isa}-{dtype}-{kind}")
    for isa, dtype in LAYOUTS.values()
    for kind in (MANY if isa == FULL_ISA else ["modern", "experts", "qwen3.5"])
]


# Each thread has rows of its own in the last texts on up to 11 threads; otherwise all share them.
@pytest.mark.parametrize(
    ("lengths", "counts"),
    [([9], (2, 64)), ([130], (7,)), ([300, 1, 40, 1100, 7], (7, 16))],
    ids=["9", "130", "mixed"],
)
@pytest.mark.parametrize(("kernels", "dtype", "kind"), DIVIDED)
@pytest.mark.full(after=2)
def test_any_number_of_threads_gives_the_same_bits(
    kernels: str, dtype: str, kind: str, lengths: list[int], counts: tuple[int, ...]
) -> None:
    encoder, texts = Pair.of(kernels, dtype, kind).ours, batch(lengths)
    last = KINDS[kind].num_layers

    def found(threads: int) -> list[bytes]:
        with use_threads(threads):
            both = encoder.states(texts, last), encoder.vectors(texts, ["cls"])
            return [each.tobytes() for each in both]

    expected = found(1)
    assert [threads for threads in counts if found(threads) != expected] == []


@layouts
@pytest.mark.parametrize("kind", ["modern", "llama", "deberta"])
@pytest.mark.full(after=1)
def test_a_long_text_is_the_same_bits_with_others(kernels: str, dtype: str, kind: str) -> None:
    encoder, texts = Pair.of(kernels, dtype, kind).ours, batch([77, 2300, 5])
    alone = Batch.of([texts.ids[77:-5]])
    last = KINDS[kind].num_layers
    assert np.array_equal(encoder.states(alone, last), encoder.states(texts, last)[77:-5])
