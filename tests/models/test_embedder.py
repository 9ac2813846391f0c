"""Tests of the whole way from text to vector: the same as the reference, and the same always."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from deploy.loadtest.corpus import Corpus
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.vectors import truncate_and_normalize
from tests.conftest import WORDS, Folder, precisions
from tests.models.built import SHORT
from tests.models.families.exact import assert_near, exact_vectors
from tests.models.model_files.options import (
    NORMALIZE,
    POOLING,
    REFERENCE_MODES,
    TRANSFORMER,
)
from tests.models.tiny import with_token

Floats = npt.NDArray[np.float32]
SENTENCES = [" ".join(WORDS[5 * i : 5 * i + 1 + 3 * i]) for i in range(9)]


def reference(folder: Path) -> Any:
    return SentenceTransformer(str(folder), device="cpu")


@pytest.fixture(scope="session")  # the tests of another precision come after other modules
def theirs(minilm_folder: Path, texts: list[str]) -> Floats:
    """The vectors of the 200 texts by sentence-transformers, in float32."""
    return np.asarray(reference(minilm_folder).encode(texts))


def sequence(length: int) -> list[int]:
    """Token ids that depend on the length alone."""
    noise = random.Random(length)
    return [noise.randrange(1000, 28000) for _ in range(length)]


def same_bits(a: Floats, b: Floats) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


# ---- the same as the reference


@pytest.mark.full(after=1)
def test_vectors_equal_sentence_transformers(
    any_embedder: Embedder, texts: list[str], theirs: Floats
) -> None:
    vectors = any_embedder.embed(texts)
    cosines = (vectors * theirs).sum(axis=1)
    assert cosines.min() >= (0.995 if any_embedder.dtype == "int8" else 0.9998)
    mean = 0.9991 if SHORT else 0.99925
    assert cosines.mean() >= (mean if any_embedder.dtype == "int8" else 0.9999)
    if any_embedder.dtype == "float32":
        assert np.abs(vectors - theirs).max() <= 2e-6


@pytest.fixture(scope="session")
def manuals(embedder: Embedder) -> list[tuple[list[str], Floats]]:
    """Passages of two manuals, and their vectors in float32."""
    found = []
    for corpus in (Corpus(random.Random(seed)) for seed in (0, 4)):
        prose = [corpus.cut(4, 14) for _ in range(200)] + [corpus.cut(40, 200) for _ in range(30)]
        found.append((prose, embedder.embed(prose)))
    return found


@pytest.mark.parametrize("any_embedder", precisions()[1:], indirect=True)
@pytest.mark.full
def test_a_manual_is_read_as_in_float32(
    any_embedder: Embedder, manuals: list[tuple[list[str], Floats]]
) -> None:
    rounded = (0.997, 0.9992) if SHORT else (0.998, 0.9993)
    least, mean = rounded if any_embedder.dtype == "int8" else (0.9998, 0.9999)
    for prose, exact in manuals:
        cosines = (any_embedder.embed(prose) * exact).sum(axis=1)
        assert cosines.min() >= least and cosines.mean() >= mean, (cosines.min(), cosines.mean())


def sentence_files(pooling: dict[str, object], normalize: bool = False) -> dict[str, object]:
    modules = [TRANSFORMER, POOLING, *([NORMALIZE] if normalize else [])]
    return {
        "modules.json": modules,
        "1_Pooling/config.json": {"word_embedding_dimension": 48, **pooling},
    }


def booleans(*modes: str) -> dict[str, object]:
    return {key: mode in modes for mode, key in REFERENCE_MODES.items()}


@pytest.mark.full(after=3)
@pytest.mark.parametrize(
    "pooling",
    [
        *(booleans(mode) for mode in REFERENCE_MODES),
        *({"pooling_mode": mode} for mode in REFERENCE_MODES),
        booleans("mean", "cls"),
        booleans(*REFERENCE_MODES),
        {"pooling_mode": ["lasttoken"]},
        {"pooling_mode": ["mean", "cls"]},
        {"pooling_mode": ["lasttoken", "max", "weightedmean"]},
    ],
    ids=lambda pooling: str(pooling.get("pooling_mode", [key for key in pooling if pooling[key]])),
)
def test_every_pooling_equals_sentence_transformers(
    tiny_bert: Folder, pooling: dict[str, object]
) -> None:
    folder = tiny_bert(sentence_files(pooling))
    embedder = Embedder.load(folder, device="cpu", dtype="float32")
    expected = exact_vectors(reference(folder), SENTENCES)
    assert expected.values.shape == (len(SENTENCES), embedder.dim)
    assert_near(embedder.embed(SENTENCES), expected)


@pytest.mark.full(after=2)
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
@pytest.mark.parametrize("normalize", [True, False])
def test_every_activation_equals_sentence_transformers(
    tiny_bert: Folder, activation: str, normalize: bool
) -> None:
    folder = tiny_bert(sentence_files(booleans("mean"), normalize), hidden_act=activation)
    vectors = Embedder.load(folder, device="cpu", dtype="float32").embed(SENTENCES)
    assert_near(vectors, exact_vectors(reference(folder), SENTENCES))


@pytest.mark.parametrize(
    "options",
    [
        {"sentence_bert_config.json": {"max_seq_length": 20, "do_lower_case": False}},
        {"sentence_bert_config.json": {"max_seq_length": 20, "do_lower_case": True}},
        {
            "config_sentence_transformers.json": {
                "prompts": {"query": "for the "},
                "default_prompt_name": "query",
            }
        },
    ],
    ids=["max_seq_length", "do_lower_case", "default_prompt_name"],
)
def test_every_option_of_a_sentence_model_equals_sentence_transformers(
    tiny_bert: Folder, options: dict[str, object]
) -> None:
    folder = tiny_bert(sentence_files({"pooling_mode": "mean"}) | options)
    model, embedder = reference(folder), Embedder.load(folder, device="cpu", dtype="float32")
    texts = [*SENTENCES, "SHOUTED Words", "İ The"]
    assert embedder.max_length == model.max_seq_length
    assert_near(embedder.embed(texts), exact_vectors(model, texts))


def test_a_folder_written_by_sentence_transformers_is_read(
    tiny_bert: Folder, tmp_path: Path
) -> None:
    folder = tiny_bert(sentence_files({"pooling_mode": ["cls", "mean"]}, normalize=True))
    model = reference(folder)
    model.max_seq_length = 24
    model.prompts = {"query": "for the "}
    model.default_prompt_name = "query"
    model.save_pretrained(str(tmp_path), create_model_card=False)
    embedder = Embedder.load(tmp_path, device="cpu", dtype="float32")
    assert embedder.max_length == 24
    assert_near(embedder.embed(SENTENCES), exact_vectors(model, SENTENCES))


# ---- the same bits in every batch


BRIEF = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 23, 24, 25]
MIXED = [256, *BRIEF, 31, 32, 33, 40, 47, 48, 49, 56, 63, 64, 65, 100, 127, 128, 129]

Alone = Callable[[Sequence[int]], Floats]


@pytest.fixture(scope="module")
def alone(any_embedder: Embedder) -> Alone:
    """The vectors of sequences of these lengths, each computed alone."""
    known: dict[int, Floats] = {}

    def vectors(lengths: Sequence[int]) -> Floats:
        for length in set(lengths) - known.keys():
            known[length] = any_embedder.encode([sequence(length)])[0]
        return np.stack([known[length] for length in lengths])

    return vectors


@pytest.mark.full(after=2)
@pytest.mark.parametrize("size", [5, 32])
def test_a_sequence_has_the_same_bits_alone_and_in_a_batch(
    any_embedder: Embedder, alone: Alone, size: int
) -> None:
    assert len(MIXED) == 32
    rows = [sequence(length) for length in MIXED]
    parts = [any_embedder.encode(rows[i : i + size]) for i in range(0, 32, size)]
    assert same_bits(np.concatenate(parts), alone(MIXED))


def test_the_order_of_a_batch_changes_no_bit(any_embedder: Embedder, alone: Alone) -> None:
    shuffled = random.Random(0).sample(MIXED, 32)
    rows = [sequence(length) for length in shuffled]
    assert same_bits(any_embedder.encode(rows), alone(shuffled))


@pytest.mark.full(after=7)
@pytest.mark.parametrize(
    "lengths",
    [
        [1] * 4,
        [1] * 33,
        [5],
        [31, 1],
        [32, 1],
        [8] * 4,
        [16, 8, 8, 1],
        [1, 256],
        [256, 255, 1],
        [256, 256, 1],
        [64] * 8,
        [7, 8, 9] * 20,
        [256] * 8 + [1],
        [3] * 700,
    ],
    ids=lambda lengths: f"{len(lengths)} of {min(lengths)} to {max(lengths)}, {sum(lengths)}",
)
def test_no_border_of_the_packing_changes_a_bit(
    any_embedder: Embedder, alone: Alone, lengths: list[int]
) -> None:
    rows = [sequence(length) for length in lengths]
    assert same_bits(any_embedder.encode(rows), alone(lengths))


@pytest.mark.full(after=1)
@settings(max_examples=8)
@given(lengths=st.lists(st.integers(1, 256), min_size=2, max_size=4))
def test_no_mixture_of_lengths_changes_a_bit(
    any_embedder: Embedder, alone: Alone, lengths: list[int]
) -> None:
    rows = [sequence(length) for length in lengths]
    assert same_bits(any_embedder.encode(rows), alone(lengths))


@pytest.mark.full
@settings(max_examples=25)
@given(lengths=st.lists(st.integers(1, 64), min_size=2, max_size=9))
def test_no_mixture_of_lengths_changes_a_bit_of_an_odd_width(
    tiny: Embedder, lengths: list[int]
) -> None:
    rows = [[i % 90 for i in sequence(length)] for length in lengths]
    singles = np.concatenate([tiny.encode([row]) for row in rows])
    assert same_bits(tiny.encode(rows), singles)


@pytest.fixture(scope="module")
def tiny(tiny_bert: Folder) -> Embedder:
    folder = tiny_bert(hidden_size=36, intermediate_size=52)
    return Embedder.load(folder, device="cpu", dtype="float32")


def test_a_vector_is_the_mean_of_the_hidden_states(any_embedder: Embedder) -> None:
    rows = [sequence(length) for length in (1, 4, 17)]
    states = any_embedder.hidden(rows)
    assert [part.shape for part in states] == [(1, 384), (4, 384), (17, 384)]
    assert all(part.dtype == np.float32 for part in states)
    means = np.stack([part.mean(axis=0) for part in states])
    np.testing.assert_allclose(any_embedder.encode(rows, normalized=False), means, atol=1e-6)


@pytest.mark.parametrize("layer", [None, 0, 2, "token", "position", "segment"])
def test_hidden_states_have_the_same_bits_alone_and_in_a_batch(
    any_embedder: Embedder, layer: int | str | None
) -> None:
    rows = [sequence(length) for length in (1, 4, 17, 8, 33)]
    for row, states in zip(rows, any_embedder.hidden(rows, layer), strict=True):
        assert states.shape == (len(row), any_embedder.dim)
        assert same_bits(states, any_embedder.hidden([row], layer)[0])


@pytest.mark.full(after=2)
@pytest.mark.parametrize("budget", [1, 100, 5000])
def test_the_budget_of_a_batch_changes_no_bit(any_embedder: Embedder, budget: int) -> None:
    texts = [*SENTENCES, "", *SENTENCES[:2]]
    vectors = any_embedder.embed(texts, budget=budget)
    assert same_bits(vectors, np.concatenate([any_embedder.embed([text]) for text in texts]))


@pytest.mark.parametrize("dimensions", [None, 1, 7, 64])
def test_shortened_vectors_have_the_same_bits_alone_and_in_a_batch(
    dimensions: int | None,
) -> None:
    vectors = np.random.default_rng(0).normal(size=(32, 384)).astype(np.float32)
    together = truncate_and_normalize(vectors, dimensions, normalized=True)
    singles = [
        truncate_and_normalize(vectors[i : i + 1], dimensions, normalized=True) for i in range(32)
    ]
    assert same_bits(together, np.concatenate(singles))


def test_warming_changes_no_bit(any_embedder: Embedder) -> None:
    before = any_embedder.embed(SENTENCES)
    any_embedder.warm()
    assert same_bits(any_embedder.embed(SENTENCES), before)


def test_warming_needs_no_word_of_the_vocabulary(tiny_bert: Folder) -> None:
    # The table has fewer vectors than the tokenizer has tokens, as in some checkpoints.
    Embedder.load(with_token(tiny_bert(), "warm"), device="cpu").warm()


def test_ids_may_be_lists_or_arrays(embedder: Embedder) -> None:
    rows = [sequence(5), sequence(9)]
    arrays = [np.array(row, dtype=np.int32) for row in rows]
    assert same_bits(embedder.encode(rows), embedder.encode(arrays))


# ---- the rest


def test_no_texts_are_no_vectors(embedder: Embedder) -> None:
    assert embedder.embed([]).shape == (0, 384)


def test_a_prompt_stands_before_every_text(embedder: Embedder) -> None:
    prompted = embedder.embed(["a cat", ""], prompt="query: ")
    assert same_bits(prompted, embedder.embed(["query: a cat", "query: "]))


def test_an_empty_prompt_replaces_the_default_one(tiny_bert: Folder) -> None:
    card = {"prompts": {"query": "for the "}, "default_prompt_name": "query"}
    folder = tiny_bert({"config_sentence_transformers.json": card})
    embedder = Embedder.load(folder, device="cpu", dtype="float32")
    plain, default = embedder.tokenize(["work"], prompt=""), embedder.tokenize(["work"])
    assert [len(row) for row in (*plain, *default)] == [3, 5]


def test_embedding_is_encoding_the_tokens(embedder: Embedder) -> None:
    texts = ["a cat", "a longer text about cats"]
    assert same_bits(embedder.encode(embedder.tokenize(texts)), embedder.embed(texts))


def test_normalising_may_be_chosen(embedder: Embedder) -> None:
    rows = [sequence(5), sequence(9)]
    raw, units = embedder.encode(rows, normalized=False), embedder.encode(rows, normalized=True)
    assert np.abs(np.linalg.norm(raw, axis=1) - 1).min() > 0.1
    np.testing.assert_allclose(units, raw / np.linalg.norm(raw, axis=1)[:, None], rtol=1e-5)
    assert same_bits(embedder.encode(rows), units)


def test_an_embedder_says_what_it_is(any_embedder: Embedder) -> None:
    assert (any_embedder.dim, any_embedder.max_length) == (384, 256)
    assert any_embedder.dtype in ("float32", "bfloat16", "int8")
    assert any_embedder.device.type == "cpu"
    assert any_embedder.embed(["cat"]).dtype == np.float32


def test_a_fingerprint_tells_the_precision(any_embedder: Embedder, embedder: Embedder) -> None:
    files = embedder.fingerprint.removesuffix("-float32")
    assert any_embedder.fingerprint == f"{files}-{any_embedder.dtype}"


@pytest.mark.parametrize("device", ["nonsense", "mps", "cuda:99", "cpu:x"])
def test_a_device_that_cannot_be_had_is_refused(minilm_folder: Path, device: str) -> None:
    with pytest.raises(ModelError, match=device):
        Embedder.load(minilm_folder, device=device)


def test_a_precision_that_cannot_be_had_is_refused(minilm_folder: Path) -> None:
    with pytest.raises(ModelError, match="dtype float16 is not supported on this cpu"):
        Embedder.load(minilm_folder, device="cpu", dtype="float16")


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json is missing: not a model folder"):
        Embedder.load(tmp_path, device="cpu")


@pytest.mark.parametrize("layer", [-1, 7])
def test_a_layer_that_the_model_does_not_have_is_refused(embedder: Embedder, layer: int) -> None:
    with pytest.raises(ValueError, match="layers are 0 to 6"):
        embedder.hidden([[101, 102]], layer)


def test_a_reference_sentence_with_a_token_that_the_table_lacks_is_left_out(
    tiny_bert: Folder,
) -> None:
    folder = with_token(tiny_bert(), "gene")
    loaded = Embedder.load(folder, device="cpu", dtype=precisions()[-1])
    assert loaded.trials[-1].cosine > 0.99


def test_an_unknown_format_of_pairs_is_refused_for_any_model(tiny_bert: Folder) -> None:
    with pytest.raises(ModelError, match="rerank_format 'other' is not one of"):
        Embedder.load(tiny_bert(), rerank_format="other")


def test_texts_for_encode_are_refused_with_the_method_for_them(embedder: Embedder) -> None:
    texts: Any = ["Hello, world"]
    for wrong in (texts, texts[0]):
        with pytest.raises(TypeError, match=r"for texts use embed\(texts\)"):
            embedder.encode(wrong)


def test_an_embedder_names_its_model(embedder: Embedder) -> None:
    assert repr(embedder) == "<Embedder: bert, dense of 384 dimensions, float32 on cpu>"


def test_a_name_in_place_of_a_loaded_model_is_refused_with_what_to_call() -> None:
    with pytest.raises(TypeError, match=r"use Embedder\.load\('all-MiniLM-L6-v2'\)"):
        Embedder("all-MiniLM-L6-v2")  # type: ignore[arg-type]
