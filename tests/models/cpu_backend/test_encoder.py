"""The compiled encoder against its twin on torch, for every instruction set of this processor."""

import resource
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from embedwell_models.checkpoint.weights import StoredWeights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.cpu_backend.layer_weights import LayerWeights
from embedwell_models.cpu_backend.library import SHORT_SUMS
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.encoder.batch import Batch
from embedwell_models.positions.schemes import Rotary, Scheme
from embedwell_models.torch_backend.linear import ACTIVATIONS
from embedwell_models.torch_backend.pooling import POOLINGS, pool
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.vectors import Floats, normalize
from tests.models.built import BUILT, PAIRS, kernels, layouts
from tests.models.cpu_backend.pair import CPU, Pair, Rounded, batch, error
from tests.models.shapes import (
    KINDS,
    VOCABULARY,
    eva,
    mixture,
    modern,
    random_weights,
    recurrent,
    shape,
)
from tests.models.threads import use_threads

CLOSE = {"float32": 2e-6, "bfloat16": 0.015, "int8": 0.05}  # of the length of what is expected


@pytest.mark.full(after=7)
@layouts
@pytest.mark.parametrize("activation", sorted(set(ACTIVATIONS) - {"none"}))
def test_every_activation_equals_its_twin(kernels: str, dtype: str, activation: str) -> None:
    Pair(kernels, dtype, shape(activation=activation)).check([5, 33], CLOSE[dtype])


@layouts
@settings(max_examples=10)
@given(
    lengths=st.lists(st.integers(1, 100), min_size=1, max_size=8),
    config=st.sampled_from(
        [
            *(shape(64, 2, 64), shape(64, 2, 192), shape(128, 2, 64), shape(128, 2, 192)),
            *(shape(128, 4, 64), shape(128, 4, 192), shape(192, 6, 64), shape(192, 6, 192)),
        ]
    ),
)
@pytest.mark.full
def test_random_shapes_equal_their_twin(
    kernels: str, dtype: str, lengths: list[int], config: EncoderConfig
) -> None:
    Pair(kernels, dtype, config).check(lengths, CLOSE[dtype])


@kernels
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.full(after=14)
def test_every_kind_equals_its_twin(kernels: str, dtype: str, kind: str) -> None:
    pair = Pair.of(kernels, dtype, kind)
    for lengths in ([1], [17, 1, 90, 33, 28, 64]):
        pair.check(lengths, CLOSE[dtype])


@layouts
@pytest.mark.parametrize("config", [shape(inner=100), modern(inner=30), eva(inner=170)])
@pytest.mark.full(after=4)
def test_features_that_do_not_fill_a_tile_equal_their_twin(
    kernels: str, dtype: str, config: EncoderConfig
) -> None:
    Pair(kernels, dtype, config).check([5, 33], CLOSE[dtype])


@layouts
@pytest.mark.parametrize(
    "config",
    [
        shape(heads=2, head_size=72),
        modern(head_size=80, positions=Rotary(dim=80), local={}),
        modern(head_size=112),
        recurrent(modern(head_size=72, local={}, heads=4, num_kv_heads=2)),
    ],
)
@pytest.mark.full(after=4)
def test_heads_that_do_not_fill_a_tile_equal_their_twin(
    kernels: str, dtype: str, config: EncoderConfig
) -> None:
    pair = Pair(kernels, dtype, config)
    pair.check([5, 33, 1, 70], CLOSE[dtype])
    texts = batch([5, 33, 1, 70])
    vectors = pair.ours.vectors(texts, ["mean"])
    for row, vector in zip(texts.split(texts.ids), vectors, strict=True):
        assert np.array_equal(pair.ours.vectors(Batch.of([row]), ["mean"])[0], vector)


@pytest.mark.full(after=7)
@layouts
@pytest.mark.parametrize("kind", ["bert", "jina", "modern"])
def test_tokens_of_the_second_segment_equal_their_twin(kernels: str, dtype: str, kind: str) -> None:
    config = replace(KINDS[kind], two_segments=True, segments=True)
    pair = Pair(kernels, dtype, config)
    first, second = batch([9, 2, 40]), batch([9, 2, 40])
    second.ids[::2] += VOCABULARY
    expected = pair.twin.states(second, config.num_layers)
    assert error(pair.ours.states(second, config.num_layers), expected) < CLOSE[dtype]
    assert error(pair.ours.states(first, config.num_layers), expected) > 0.1


@layouts
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.full(after=7)
def test_tokens_that_are_not_attended_to_equal_their_twin(
    kernels: str, dtype: str, kind: str
) -> None:
    # Some are so far from the others that they see none in a window, which is zero.
    pair, whole = Pair.of(kernels, dtype, kind), batch([7, 32, 70, 1, 129, 64])
    texts = replace(whole, key_counts=np.array([7, 9, 3, 1, 64, 32]))
    actual, expected = (
        encoder.states(texts, pair.config.num_layers) for encoder in (pair.ours, pair.twin)
    )
    assert error(actual, expected) < CLOSE[dtype]
    assert error(pair.ours.states(whole, pair.config.num_layers), expected) > 1.4 * CLOSE[dtype]
    alone = Batch(
        texts.ids[7:39], texts.lengths[1:2], texts.prompt_token_counts[1:2], np.array([9])
    )
    assert np.array_equal(pair.ours.states(alone, pair.config.num_layers), actual[7:39])


@pytest.mark.full(after=1)
@layouts
def test_more_tokens_than_fit_one_part_equal_their_twin(kernels: str, dtype: str) -> None:
    for kind in ("bert", "modern", "deberta"):
        Pair.of(kernels, dtype, kind).check([500, 3, 260, 1, 90], CLOSE[dtype])


@pytest.mark.full(after=7)
@layouts
@pytest.mark.parametrize("mode", POOLINGS)
def test_every_pooling_is_that_of_the_states(kernels: str, dtype: str, mode: str) -> None:
    pair, given = Pair(kernels, dtype, shape()), batch([3, 1, 40])
    states = pair.ours.states(given, 2)
    layout = SequenceLayout(given.lengths.tolist(), CPU)
    expected = pool(torch.from_numpy(states), layout, [mode]).numpy()
    np.testing.assert_allclose(pair.ours.vectors(given, [mode]), expected, atol=2e-6)


@layouts
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.full(after=4)
def test_the_one_token_that_is_pooled_has_the_bits_of_its_state(
    kernels: str, dtype: str, kind: str
) -> None:
    encoder, given = Pair.of(kernels, dtype, kind).ours, batch([300, 1, 2, 29, 28, 260, 90])
    states = encoder.states(given, KINDS[kind].num_layers)
    ends = given.lengths.cumsum()
    for mode, rows in (("cls", ends - given.lengths), ("lasttoken", ends - 1)):
        expected = states[rows]
        assert np.array_equal(encoder.vectors(given, [mode]), expected)
        both = encoder.vectors(given, [mode, "max"])
        assert np.array_equal(both[:, : expected.shape[1]], expected)
        assert np.array_equal(encoder.vectors(given, [mode] * 2), np.tile(expected, 2))


@layouts
@pytest.mark.parametrize(
    "kind",
    [
        *("bert", "biased", "experts", "modern", "llama", "gemma", "gates", "deberta"),
        *("umt5", "xlnet", "jina code", "gpt-neox", "gpt-j", "gemma 2", "lfm2", "lfm2.5"),
        "qwen3.5",
    ],
)
@pytest.mark.full(after=7)
def test_a_sequence_is_the_same_bits_in_every_batch_and_on_any_threads(
    kernels: str, dtype: str, kind: str
) -> None:
    encoder, num_layers = Pair.of(kernels, dtype, kind).ours, KINDS[kind].num_layers
    given = batch([1, 2, 3, 4, 13, 14, 15, 16, 17, 28, 29, 31, 32, 33, 200, 300])
    first, borders = Batch.of([given.ids[:12]]), given.lengths.cumsum()[:-1]
    texts = [Batch.of([row]) for row in np.split(given.ids, borders)]
    short = encoder.states(first, num_layers)
    states = np.concatenate([encoder.states(text, num_layers) for text in texts])
    vectors = np.concatenate([encoder.vectors(text, ["mean"]) for text in texts])
    for threads in (1, 2, 5):
        with use_threads(threads):
            assert np.array_equal(encoder.states(given, num_layers), states)
            assert np.array_equal(encoder.vectors(given, ["mean"]), vectors)
            assert np.array_equal(encoder.states(first, num_layers), short)  # all on one text


@layouts
@pytest.mark.parametrize(("experts", "top"), [(1, 1), (5, 1), (5, 5), (40, 3)])
def test_every_number_of_experts_equals_its_twin(
    kernels: str, dtype: str, experts: int, top: int
) -> None:
    for every in (1, 2):
        config = mixture(shape(), experts, top, every)
        Pair(kernels, dtype, config).check([17, 1, 30], CLOSE[dtype])


@kernels
def test_every_precision_chooses_the_same_experts(kernels: str, dtype: str) -> None:
    config = mixture(shape(layers=1), 40, 1, every=1)
    weights = dict(random_weights(config))
    weights["layers.0.output.weight"] = 0 * weights["layers.0.output.weight"]  # the same input
    weights["layers.0.experts_down.weight"] = 9 * weights["layers.0.experts_down.weight"]
    pair, texts = Pair(kernels, dtype, config, weights), batch([512])
    rows = zip(pair.ours.states(texts, 1), pair.twin.states(texts, 1), strict=True)
    assert max(error(actual, expected) for actual, expected in rows) < 0.2


@kernels
def test_of_equal_experts_the_first_are_chosen(kernels: str, dtype: str) -> None:
    config, texts = KINDS["experts"], batch([9, 30])
    weights = {**random_weights(config), "layers.1.router.weight": np.zeros((4, 64), np.float32)}
    pair, down = Pair(kernels, dtype, config, weights), "layers.1.experts_down.weight"
    fewer = np.concatenate([weights[down][:256], np.zeros((256, 64), np.float32)])
    other = Pair(kernels, dtype, config, {**weights, down: fewer})
    assert np.array_equal(pair.ours.states(texts, 2), other.ours.states(texts, 2))


@pytest.mark.full(after=7)
@layouts
@pytest.mark.parametrize("broken", [0, 1, 2])
def test_a_sequence_of_nans_spoils_no_other(kernels: str, dtype: str, broken: int) -> None:
    pair, rows = Pair(kernels, dtype, shape()), [[1] * 3, [2] * 20, [3] * 5]
    clean = np.split(pair.ours.states(Batch.of(rows), 2), [3, 23])
    assert pair.inputs.token_rows is not None
    pair.inputs.token_rows[broken + 1] = float("nan")
    spoilt = np.split(pair.ours.states(Batch.of(rows), 2), [3, 23])
    for index in {0, 1, 2} - {broken}:
        assert np.array_equal(spoilt[index], clean[index])
    assert np.isnan(spoilt[broken]).all()


@layouts
@pytest.mark.parametrize("kind", ["bert", "experts"])
def test_a_token_of_nans_spoils_the_states_of_its_text(kernels: str, dtype: str, kind: str) -> None:
    pair = Pair(kernels, dtype, KINDS[kind])
    pair.twin.embeddings.tokens[7] = float("nan")
    good, bad = pair.ours.vectors(Batch.of([[1] * 70, [1] * 69 + [7]]), ["cls"])
    assert np.isfinite(good).all() and np.isnan(bad).all()


@pytest.mark.full(after=7)
@layouts
@pytest.mark.parametrize("mode", POOLINGS)
def test_a_pooled_state_of_nans_leaves_no_number_of_its_text(
    kernels: str, dtype: str, mode: str
) -> None:
    pair = Pair(kernels, dtype, KINDS["causal"])  # whose first tokens do not see the last
    pair.twin.embeddings.tokens[7] = float("nan")
    broken = [7] + [1] * 69 if mode == "cls" else [1] * 69 + [7]
    good, bad = pair.ours.vectors(Batch.of([[1] * 70, broken]), [mode])
    assert np.isfinite(good).all() and np.isnan(bad).all()


# The memory of a pass is that of its precision, whatever the instruction set.
@pytest.mark.parametrize(("kernels", "dtype"), [p for p in BUILT if p.values[0] == PAIRS[0][0]])
# More memory for a thread than the 64 MB that glibc's malloc has reserved for it.
@pytest.mark.parametrize("lengths", [[160_000], [80_000] * 2], ids=["one text", "a part each"])
@pytest.mark.full
def test_a_pass_that_memory_is_too_small_for_is_refused_and_the_next_is_computed(
    kernels: str, dtype: str, lengths: list[int]
) -> None:
    config = shape(64, 1, 64, layers=1, input_positions=Scheme(), windows=(9,))
    encoder, given = Pair(kernels, dtype, config).ours, batch(lengths)

    def squeezed() -> tuple[int, Floats]:
        encoder.vectors(batch([12]), ["mean"])  # its threads need some, too
        for refused in range(100):
            try:
                with memory(int(1.5**refused * (2 << 20))):
                    return refused, encoder.vectors(given, ["mean"])
            except MemoryError as error:
                assert "pass of this size" in str(error)
        raise AssertionError("no memory is enough")

    with ThreadPoolExecutor(1) as alone:  # a new thread has no memory yet
        refused, found = alone.submit(squeezed).result()
    assert refused and np.array_equal(found, encoder.vectors(given, ["mean"]))


@kernels
def test_a_model_without_layers_takes_memory_for_its_vectors_alone(
    kernels: str, dtype: str
) -> None:
    config = shape(512, 1, 0, input_positions=Scheme(), layers=0)
    encoder, tokens = Pair(kernels, dtype, config).ours, 40_000
    with ThreadPoolExecutor(1) as alone, memory(3 * tokens * 512 * 4):  # a layer needs 5 times
        assert alone.submit(encoder.vectors, batch([tokens]), ["mean"]).result().shape == (1, 512)


@contextmanager
def memory(more: int) -> Iterator[None]:
    """Limit the number of bytes that can be allocated."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@layouts
def test_a_long_text_before_the_first_layer_equals_its_twin(kernels: str, dtype: str) -> None:
    for kind in ("gemma", "gates"):
        pair, long = Pair.of(kernels, dtype, kind), batch([60_000])
        assert error(pair.ours.states(long, 0), pair.twin.states(long, 0)) < 1e-6


@pytest.mark.parametrize(("kernels", "dtype"), [p for p in BUILT if "int8" in p.values])
def test_int8_rounds_as_its_twin_does(kernels: str, dtype: str) -> None:
    pair, given = Pair(kernels, dtype, shape(128, 4, 192, layers=1)), batch([9, 30])
    expected = pair.twin.torch(Rounded(kernels, pair.sizes)).states(given, 1)
    # Attention in bfloat16 turns a few integers into their neighbours.
    assert error(pair.ours.states(given, 1), expected) < 0.01


@pytest.mark.parametrize(("kernels", "dtype"), [p for p in BUILT if "int8" in p.values])
def test_int8_loses_little_though_some_channels_are_large(kernels: str, dtype: str) -> None:
    config = shape(256, 4, 512, layers=2)
    weights = {name: weight.copy() for name, weight in random_weights(config).items()}
    for name, weight in weights.items():
        if name.startswith("layers") and weight.ndim == 2:
            weight[:] /= 2  # larger ones magnify the errors of a few texts
        elif name.endswith("norm.weight") and not name.startswith("layers.1.ffn"):
            weight[[3, 100, 201]] *= 20
    pair = Pair(kernels, dtype, config, weights)
    texts = batch([1, 3, 9, 40, 5, 60, 17, 2, 30, 12] * 6)
    found, expected = (normalize(e.vectors(texts, ["mean"])) for e in (pair.ours, pair.twin))
    lost = np.median(1 - np.vecdot(found, expected))
    assert lost < (15e-6 if kernels in SHORT_SUMS else 8e-6)


INT8 = [str(p.values[0]) for p in BUILT if "int8" in p.values]
KEEPING = [isa for isa in INT8 if isa not in SHORT_SUMS]


@pytest.mark.parametrize("isa", KEEPING)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.full(after=7)
def test_with_massive_activations_int8_equals_its_twin(isa: str, kind: str) -> None:
    pair = Pair.of(isa, "int8", kind, massive=True)
    assert not any(layer.output.scales for layer in pair.layers.layers)
    pair.check([17, 1, 90], CLOSE["int8"])


@pytest.mark.parametrize("isa", KEEPING)
def test_with_massive_activations_attentions_results_are_not_rounded_to_int8(isa: str) -> None:
    config = shape(128, 4, 192, layers=1)
    weights = {name: weight.copy() for name, weight in random_weights(config).items()}
    weights["layers.0.down.weight"][:] = 0
    texts, errors = batch([40] * 8), []
    for massive in (True, False):
        pair = Pair(isa, "int8", config, weights, massive)
        errors.append(error(pair.ours.states(texts, 1), pair.twin.states(texts, 1)))
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.parametrize("isa", KEEPING)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_with_massive_activations_a_text_is_the_same_bits_in_every_batch(
    isa: str, threads: int
) -> None:
    config, given = shape(64, 4, 64, head_size=64), batch([9, 1, 300, 30, 64, 17])
    encoder = Pair(isa, "int8", config, massive=True).ours
    with use_threads(threads):
        vectors = encoder.vectors(given, ["mean"])
    rows = np.split(given.ids, given.lengths.cumsum()[:-1])
    for row, vector in zip(rows, vectors, strict=True):
        assert np.array_equal(encoder.vectors(Batch.of([row]), ["mean"])[0], vector)


@pytest.mark.full(after=7)
@layouts
@pytest.mark.parametrize("kind", ["scaled", "roberta", "albert", "llama"])
def test_weights_in_half_precision_give_the_bits_of_the_same_numbers(
    kernels: str, dtype: str, kind: str
) -> None:
    weights = Pair.of(kernels, dtype, kind).weights
    half = {name: array.astype(np.float16) for name, array in weights.items()}
    exact = {name: array.astype(np.float32) for name, array in half.items()}
    stored = Pair(kernels, dtype, KINDS[kind], StoredWeights(half))
    assert stored.inputs.read_by_rows == (kind in ("scaled", "llama"))
    plain, texts = Pair(kernels, dtype, KINDS[kind], exact), batch([7, 1, 20])
    for num_layers in range(stored.config.num_layers + 1):
        actual, expected = (each.ours.states(texts, num_layers) for each in (stored, plain))
        assert np.array_equal(actual, expected)


@kernels
def test_layers_that_share_weights_are_packed_once(kernels: str, dtype: str) -> None:
    layers = Pair.of(kernels, dtype, "albert").layers.layers
    assert len({layer.up.panels for layer in layers}) == 1 < len(layers)


@kernels
def test_weights_are_not_held_once_they_are_packed(kernels: str, dtype: str) -> None:
    config = shape()
    sizes, weights = Pair(kernels, dtype, config).sizes, random_weights(config)
    matrices = [weakref.ref(tensor) for tensor in weights.values() if tensor.ndim > 1]
    stack = LayerWeights(config, weights, kernels, Packing(dtype, sizes))
    del weights
    assert stack.layers and not any(matrix() is not None for matrix in matrices)
