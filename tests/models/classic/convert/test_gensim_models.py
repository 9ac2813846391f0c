"""Doc2Vec compared with gensim."""

import pickle
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gensim.models.doc2vec import Doc2Vec, TaggedDocument, pseudorandom_weak_vector

from embedwell_classic.convert.gensim_models import convert_doc2vec
from embedwell_classic.encoders.doc2vec import step
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats, normalize

TOPICS = [
    ["cat", "dog", "fur", "paw", "tail", "whisker", "kitten", "puppy", "bark", "meow"],
    ["ship", "sail", "wave", "harbour", "anchor", "mast", "deck", "captain", "storm", "sea"],
    ["bread", "flour", "oven", "yeast", "dough", "crust", "butter", "salt", "loaf", "baker"],
]
KINDS: dict[str, dict[str, Any]] = {
    "dbow": {"dm": 0},
    "dbow-words": {"dm": 0, "dbow_words": 1, "sample": 0},
    "dm": {"dm": 1, "sample": 0},
}


def texts(seed: int, count: int, length: int = 12) -> list[list[str]]:
    """Texts of alternating topics, with some words of the other topics."""
    random = np.random.RandomState(seed)
    everything = [word for topic in TOPICS for word in topic]
    return [
        [*random.choice(TOPICS[i % 3], length), *random.choice(everything, 3)] for i in range(count)
    ]


def train(path: Path, **options: Any) -> Doc2Vec:
    """Train a small model and save it with a separate file for each array."""
    documents = [TaggedDocument(words, [i]) for i, words in enumerate(texts(1, 240))]
    settings = {"vector_size": 20, "min_count": 1, "epochs": 20, "workers": 1, "seed": 3}
    model = Doc2Vec(documents, **{**settings, "sample": 1e-2, **options})
    model.save(str(path), sep_limit=100)
    return model


def cosines(left: Floats, right: Floats) -> Floats:
    return np.asarray((normalize(left) * normalize(right)).sum(axis=1), dtype=np.float32)


def inferred(model: Any, rows: Sequence[list[str]], seed: int) -> Floats:
    """gensim's vectors. An unknown word changes only the initial vector of the inference."""
    model.random.seed(seed)
    return np.stack([model.infer_vector([*words, f"unknown{seed}"]) for words in rows])


@pytest.mark.full(after=1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_vector_is_as_near_to_gensims_as_those_are_to_each_other(
    tmp_path: Path, kind: str
) -> None:
    theirs = train(tmp_path / "a.model", **KINDS[kind])
    convert_doc2vec(tmp_path / "a.model", tmp_path / "model")
    ours = Embedder.load(tmp_path / "model", device="cpu")
    rows = texts(2, 24, 50)
    vectors = ours.embed([" ".join(words) for words in rows])
    runs = [inferred(theirs, rows, seed) for seed in range(4)]
    among_themselves = np.mean([cosines(*pair).mean() for pair in combinations(runs, 2)])
    with_ours = np.mean([cosines(run, vectors).mean() for run in runs])
    assert among_themselves > 0.98
    assert with_ours > among_themselves - 0.003


def test_a_text_is_the_same_bits_every_time_and_in_every_batch(tmp_path: Path) -> None:
    train(tmp_path / "a.model", dm=1)
    convert_doc2vec(tmp_path / "a.model", tmp_path / "model")
    ours = Embedder.load(tmp_path / "model", device="cpu")
    rows = [" ".join(words) for words in texts(2, 6)]
    vectors = ours.embed([*rows, "", "unknown words"])
    alone = np.concatenate([ours.embed([text]) for text in rows])
    assert vectors[:6].tobytes() == alone.tobytes()
    assert not vectors[6:].any()
    np.testing.assert_array_equal(*ours.embed(["Cat, unknown SHIP!", "cat ship"]))
    outputs = ours.outputs(ours.tokenize(rows), ["dense"])
    np.testing.assert_array_equal([output.dense for output in outputs], alone)


def test_tokens_are_the_words_that_predict(tmp_path: Path) -> None:
    theirs = train(tmp_path / "a.model", dm=1)
    convert_doc2vec(tmp_path / "a.model", tmp_path / "model")
    ours = Embedder.load(tmp_path / "model", device="cpu")
    (states,) = ours.hidden(ours.tokenize(["cat unknown"]))
    np.testing.assert_array_equal(states, [theirs.wv["cat"], np.zeros(20)])


def test_a_step_is_that_of_the_formula() -> None:
    random = np.random.RandomState(0)
    targets = random.normal(0, 1, (4, 5)).astype(np.float32)
    context = random.normal(0, 1, 5).astype(np.float32)
    targets[3] *= np.float32(9 / abs(targets[3] @ context))  # beyond what is learned from
    expected = np.zeros(5)
    for label, row in zip([1, 0, 0], targets.astype(np.float64), strict=False):
        expected += 0.025 * (label - 1 / (1 + np.exp(-row @ context))) * row
    # The sigmoid of the next lower point differs by at most 0.01.
    np.testing.assert_allclose(step(context, targets, 0.025), expected, atol=0.025 * 0.02)


@pytest.mark.parametrize("shrink", [True, False])
def test_steps_from_gensims_random_numbers_lead_to_gensims_vector(
    tmp_path: Path, shrink: bool
) -> None:
    model: Any = train(tmp_path / "a.model", dm=1, sample=0, shrink_windows=shrink)
    (words,) = texts(2, 1)
    model.random.seed(5)
    expected = model.infer_vector(words)
    random = np.random.RandomState(5)
    vector = pseudorandom_weak_vector(20, seed_string=" ".join(words)).astype(np.float32)
    ids = [model.wv.key_to_index[word] for word in words]
    for rate in np.linspace(model.alpha, model.min_alpha, model.epochs):
        # The generator of gensim's compiled code: a linear congruence of 48 bits.
        state = 2**24 * int(random.randint(0, 2**24)) + int(random.randint(0, 2**24))
        windows = np.full(len(ids), 5) - (random.randint(0, 5, len(ids)) if shrink else 0)
        for place, (word, window) in enumerate(zip(ids, windows, strict=True)):
            near = [*ids[max(place - window, 0) : place], *ids[place + 1 : place + 1 + window]]
            context = (model.wv.vectors[near].sum(axis=0) + vector) / (1 + len(near))
            targets = [word]
            for _ in range(model.negative):
                drawn = (state >> 16) % int(model.cum_table[-1])
                state = (state * 25214903917 + 11) % 2**48
                other = int(np.searchsorted(model.cum_table, drawn))
                targets += [other] * (other != word)
            vector = vector + step(context.astype(np.float32), model.syn1neg[targets], rate)
    np.testing.assert_allclose(vector, expected, atol=2e-4)  # after 20 epochs


class Code:
    """A pickle that would call a function."""

    def __reduce__(self) -> Any:
        return print, ("called",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (Code(), r"its code is not run: it contains builtins\.print"),
        ([1], "but list"),
        (np.zeros(3), "but ndarray"),
    ],
    ids=["code", "list", "array"],
)
def test_a_pickle_of_anything_else_is_refused(
    tmp_path: Path, content: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.model").write_bytes(pickle.dumps(content))
    with pytest.raises(ModelError, match=rf"a\.model is not a model of gensim.*{message}"):
        convert_doc2vec(tmp_path / "a.model", tmp_path / "model")
    assert not capsys.readouterr().out


@pytest.mark.parametrize("options", [{"hs": 1, "negative": 0}, {"dm_concat": 1}], ids=str)
def test_another_kind_of_model_is_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    train(tmp_path / "a.model", epochs=1, **options)
    with pytest.raises(ModelError, match="this model has hs, dm_concat"):
        convert_doc2vec(tmp_path / "a.model", tmp_path / "model")


def test_a_missing_array_and_a_pooling_are_refused(tmp_path: Path) -> None:
    train(tmp_path / "a.model", epochs=1)
    convert_doc2vec(tmp_path / "a.model", tmp_path / "model")
    with pytest.raises(ModelError, match="has no pooling"):
        Embedder.load(tmp_path / "model", device="cpu", pooling="max")
    (tmp_path / "a.model.syn1neg.npy").unlink()
    with pytest.raises(ModelError, match=r"syn1neg\.npy"):
        convert_doc2vec(tmp_path / "a.model", tmp_path / "other")


def test_an_array_of_another_shape_or_with_nan_is_refused_by_name(tmp_path: Path) -> None:
    train(tmp_path / "a.model", epochs=1)
    path = tmp_path / "a.model.syn1neg.npy"
    rows = np.load(path)
    for values, message in ((rows[:-1], "output_table has the shape"), (rows * np.nan, "has NaN")):
        np.save(path, values)
        with pytest.raises(ModelError, match=message):
            convert_doc2vec(tmp_path / "a.model", tmp_path / "model")
        assert not (tmp_path / "model").exists()
