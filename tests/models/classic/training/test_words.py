"""Trained word vectors compared with gensim, and neighbours of words that are used alike."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gensim.models import FastText, Word2Vec

from embedwell_classic.training.corpus import WordSequences, open_corpus
from embedwell_classic.training.words import Algorithm, WordTraining, train_words
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.vectors import Floats, normalize
from tests.models.classic.training.texts import TOPICS, write_texts

SMALL: dict[str, Any] = {"dimensions": 24, "window": 3, "min_count": 2, "buckets": 500}
EPOCHS: dict[Algorithm, int] = {"word2vec": 60, "fasttext": 60, "glove": 60}


def trained(folder: Path, count: int = 300, **options: Any) -> Embedder:
    target = folder / "-".join(map(str, options.values()))
    target.mkdir(parents=True)
    with open_corpus(write_texts(folder / "corpus.txt", count)) as corpus:
        train_words(corpus, target, WordTraining(**{**SMALL, **options}))
    return Embedder.load(target, device="cpu")


@pytest.mark.parametrize("algorithm", EPOCHS)
def test_words_that_are_used_alike_are_nearer_than_others(
    tmp_path: Path, algorithm: Algorithm
) -> None:
    model = trained(tmp_path, algorithm=algorithm, epochs=EPOCHS[algorithm])
    classes = [group for topic in TOPICS for group in topic]
    vectors = normalize(model.embed([word for group in classes for word in group]))
    number = np.repeat(range(len(classes)), [len(group) for group in classes])
    alike, cosines = number[:, None] == number, vectors @ vectors.T
    within, between = cosines[alike & ~np.eye(len(number), dtype=bool)], cosines[~alike]
    assert (within[:, None] > between).mean() > 0.8  # by chance: 0.5


@pytest.mark.parametrize("algorithm", EPOCHS)
def test_a_seed_gives_the_same_vectors_again_and_another_one_others(
    tmp_path: Path, algorithm: Algorithm
) -> None:
    def vectors(name: str, seed: int) -> Floats:
        return trained(tmp_path / name, 50, algorithm=algorithm, seed=seed).embed(["cat boat"])

    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first = vectors("first", 1)
    np.testing.assert_array_equal(first, vectors("second", 1))
    assert not np.array_equal(first, vectors("first", 2))


@pytest.mark.parametrize("exact", [False, True])
def test_word2vec_and_fasttext_are_gensims_to_the_bit(tmp_path: Path, exact: bool) -> None:
    kinds: list[tuple[Algorithm, Any, dict[str, Any]]] = [
        ("word2vec", Word2Vec, {}),
        ("fasttext", FastText, {"bucket": SMALL["buckets"]}),
    ]
    for algorithm, kind, options in kinds:
        ours = trained(tmp_path, algorithm=algorithm, exact=exact, seed=3, epochs=4)
        with open_corpus(tmp_path / "corpus.txt") as corpus:
            texts = [*WordSequences(corpus, exact)]
        theirs = kind(
            *(texts,),
            **{"vector_size": 24, "window": 3, "min_count": 2, "sg": 1, "epochs": 4},
            **{"seed": 3, "workers": 1, **options},
        )
        words = theirs.wv.index_to_key
        assert ("The" in words) == exact
        np.testing.assert_array_equal(ours.embed(words), theirs.wv[words])
        unknown = ours.embed(["shipyard"])[0]
        if algorithm == "fasttext":
            np.testing.assert_allclose(unknown, theirs.wv["shipyard"], atol=1e-6)
        else:
            assert not unknown.any()


@pytest.mark.parametrize("algorithm", EPOCHS)
def test_a_corpus_without_frequent_words_is_refused(tmp_path: Path, algorithm: Algorithm) -> None:
    with pytest.raises(ModelError, match=r"no word occurs 99 times: lower --min-count"):
        trained(tmp_path, 5, algorithm=algorithm, min_count=99)
