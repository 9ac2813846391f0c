"""MUVERA's encodings, against fastembed's numbers and the steps of the paper."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from embedwell_models.encoder.muvera import Muvera
from embedwell_models.errors import InputError
from embedwell_models.vectors import Doubles, Floats, maxsim, normalize


def tokens(count: int, dim: int = 24, seed: int = 0) -> Floats:
    rows = np.random.default_rng(seed).normal(size=(count, dim))
    return normalize(rows.astype(np.float32))


def of_the_paper(options: Muvera, vectors: Floats, *, document: bool) -> Doubles:
    """Compute an encoding cluster by cluster, with the random numbers in fastembed's order."""
    noise, dim, clusters = np.random.default_rng(options.seed), options.dim, 1 << options.k_sim
    planes = [noise.normal(size=(dim, options.k_sim)) for _ in range(options.r_reps)]
    signs = noise.choice([-1, 1], size=(options.r_reps, dim, options.dim_proj))
    blocks = list[Doubles]()
    for plane, sign in zip(planes, signs, strict=True):
        numbers = [sum(2**i for i, dot in enumerate(row @ plane) if dot > 0) for row in vectors]
        for cluster in range(clusters):
            members = [vectors[i] for i, number in enumerate(numbers) if number == cluster]
            total: Doubles = np.array(members or [np.zeros(dim)], dtype=np.float64).sum(axis=0)
            if document and members:
                total /= len(members)
            if document and not members:
                nearest = min({*numbers}, key=lambda each: ((each ^ cluster).bit_count(), each))
                total = vectors[numbers.index(nearest)].astype(np.float64)
            projects = options.dim_proj < dim
            blocks.append(total @ sign / np.sqrt(options.dim_proj) if projects else total)
    return np.concatenate(blocks)


@pytest.mark.parametrize(
    "options",
    [
        Muvera(24, k_sim=3, dim_proj=8, r_reps=4),
        Muvera(24, k_sim=1, dim_proj=1, r_reps=1, seed=7),
        Muvera(24, k_sim=5, dim_proj=24, r_reps=2),  # without a projection
        Muvera(24, k_sim=6, dim_proj=23, r_reps=3, seed=0),
    ],
    ids=str,
)
@pytest.mark.parametrize("count", [1, 2, 7, 60])
def test_encodings_are_those_of_the_paper(options: Muvera, count: int) -> None:
    vectors = tokens(count)
    for encode, document in ((options.query, False), (options.document, True)):
        encoding = encode(vectors)
        assert encoding.dtype == np.float32 and encoding.shape == (options.dimensions,)
        expected = of_the_paper(options, vectors, document=document)
        assert_allclose(encoding, expected, rtol=1e-6, atol=1e-6)


def test_encodings_are_those_of_fastembed() -> None:
    """The numbers of fastembed 0.9.1's `Muvera(8, 2, 2, 2)`, rounded to four digits."""
    rows = [[(7 * i + 3 * j) % 11 - 5 for j in range(8)] for i in range(5)]
    vectors, options = np.array(rows, dtype=np.float32), Muvera(8, k_sim=2, dim_proj=2, r_reps=2)
    document = """
        0.7071 3.5355 0.7071 0.7071 0.7071 0.7071 8.4853 -2.8284
        0.7071 -0.7071 2.8284 -8.4853 2.8284 7.0711 -4.9497 -0.7071
    """
    query = """
        0.7071 3.5355 0.7071 0.7071 1.4142 1.4142 8.4853 -2.8284
        0 0 5.6569 -16.9706 2.8284 7.0711 -9.8995 -1.4142
    """
    assert_allclose(options.document(vectors), np.array(document.split(), float), atol=1e-4)
    assert_allclose(options.query(vectors), np.array(query.split(), float), atol=1e-4)


def test_products_of_encodings_are_close_to_maxsim() -> None:
    """The more repetitions, the closer: with 64 of them the order of most documents is the same."""
    options = Muvera(24, k_sim=4, dim_proj=16, r_reps=64)
    query, documents = tokens(8), [tokens(20, seed=seed) for seed in range(1, 40)]
    exact = [maxsim(query, document) for document in documents]
    products = [options.query(query) @ options.document(document) for document in documents]
    assert np.corrcoef(exact, products)[0, 1] > 0.5


def test_a_text_without_vectors_has_zeros() -> None:
    options = Muvera(24, k_sim=2, dim_proj=2, r_reps=2)
    assert_array_equal(options.document(tokens(0)), np.zeros(16))
    assert_array_equal(options.query(tokens(0)), np.zeros(16))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"k_sim": 0}, "k_sim is 0; give a number from 1 to 10"),
        ({"k_sim": 11}, "k_sim is 11; give a number from 1 to 10"),
        ({"dim_proj": 25}, "dim_proj is 25; give a number from 1 to 24"),
        ({"r_reps": 65}, "r_reps is 65; give a number from 1 to 64"),
        ({"k_sim": 10, "r_reps": 5}, "at most 65536 dimensions"),
    ],
    ids=str,
)
def test_an_option_out_of_range_is_refused(options: dict[str, int], problem: str) -> None:
    with pytest.raises(InputError, match=problem) as failed:
        Muvera(24, **options)
    assert failed.value.param == "muvera"
