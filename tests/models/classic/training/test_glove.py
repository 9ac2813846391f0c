"""GloVe's counts by hand, and its steps compared with torch's AdaGrad on the paper's formula."""

import numpy as np
import torch

from embedwell_classic.training import glove
from embedwell_classic.training.glove import Glove

TEXTS = [["a", "b", "x", "a", "c"], ["c", "b"]]


def test_words_are_counted_and_ordered() -> None:
    assert [*glove.vocabulary(TEXTS, 2).items()] == [("a", 2), ("b", 2), ("c", 2)]


def test_pairs_count_one_through_their_distance_within_a_text() -> None:
    counts = glove.cooccurrences(TEXTS, {"a": 0, "b": 1, "c": 2}, window=2).toarray()
    # Without x: a b a c, and c b. The two a are at a distance of 2, from either side.
    expected = [[2 / 2, 2, 1], [2, 0, 1 / 2 + 1], [1, 1 / 2 + 1, 0]]
    np.testing.assert_allclose(counts, expected)


def test_a_step_is_that_of_torch() -> None:
    model, random = Glove(6, 4, np.random.default_rng(0)), np.random.default_rng(1)
    tables = [
        torch.from_numpy(table.copy()).requires_grad_() for table in (model.words, model.contexts)
    ]
    optimizer = torch.optim.Adagrad(tables, lr=0.05, initial_accumulator_value=1)
    for _ in range(3):
        rows, columns = random.integers(0, 6, (2, 20))
        counts = random.uniform(0.2, 300, 20)
        loss = model.step(rows, columns, counts)
        word, context = (
            table[torch.from_numpy(ids)] for table, ids in zip(tables, (rows, columns), strict=True)
        )
        x = torch.from_numpy(counts)
        products = (word[:, :-1] * context[:, :-1]).sum(1) + word[:, -1] + context[:, -1]
        weights = torch.where(x < 100, (x / 100) ** 0.75, 1)
        expected = (weights * (products - x.log()) ** 2).sum() / 2
        optimizer.zero_grad()
        expected.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        np.testing.assert_allclose(loss, expected.item(), rtol=1e-5)
    for ours, theirs in zip((model.words, model.contexts), tables, strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), atol=1e-6)


def test_products_and_biases_become_the_logarithms_of_counts() -> None:
    random = np.random.default_rng(0)
    rows, columns = (ids.ravel() for ids in np.indices((8, 8)))
    factors = random.normal(0, 1, (2, 8, 3))
    logarithms = (factors[0] @ factors[1].T).ravel() + 3
    model = Glove(8, 6, random)
    for _ in range(3000):
        model.step(rows, columns, np.exp(logarithms))
    word, context = model.words[rows], model.contexts[columns]
    products = (word * context)[:, :-1].sum(1) + word[:, -1] + context[:, -1]
    common = logarithms > np.log(10)  # rarer pairs have little weight
    np.testing.assert_allclose(products[common], logarithms[common], atol=0.2)
