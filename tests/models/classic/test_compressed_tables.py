"""Rows of compressed tables, which do not change with versions."""

import numpy as np

from embedwell_classic.compressed_tables import CodedTable, HashedTable, pool_rows

SOME = np.random.default_rng(1)
CODES = SOME.integers(0, 9, (50, 4)).astype(np.uint8)
CODEBOOKS = SOME.normal(size=(4, 9, 3)).astype(np.float32)
CODED = CodedTable(CODES, CODEBOOKS)
EXPECTED = [[CODEBOOKS[m, row[m], j] for j in range(3) for m in range(4)] for row in CODES]
POOL = SOME.normal(size=(7, 5)).astype(np.float32)
IMPORTANCE = SOME.normal(size=(40, 2)).astype(np.float32)
MASK = (1 << 64) - 1


def test_a_row_of_codes_is_the_vector_of_each_by_turns() -> None:
    assert (len(CODED), CODED.width) == (50, 12)
    np.testing.assert_array_equal(CODED[:], EXPECTED)
    np.testing.assert_array_equal(CODED[7:9], EXPECTED[7:9])
    chosen = np.array([40, 3, 3])
    np.testing.assert_array_equal(CODED[chosen], np.array(EXPECTED)[chosen])
    assert CODED[:].dtype == np.float32 and CODED[chosen[:0]].shape == (0, 12)


def splitmix(number: int) -> int:
    """The hash in whole numbers of Python, as published."""
    value = (number + 1) * 0x9E3779B97F4A7C15 & MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def test_the_hash_is_splitmix64_and_chooses_two_different_rows() -> None:
    assert splitmix(0) == 0xE220A8397B1DCDAF  # the first number of its stream from 0
    for size in (2, 7, 1000):
        first, second = pool_rows(np.arange(500), size)
        expected = [splitmix(2 * id) % size for id in range(500)]
        assert first.tolist() == expected
        steps = [splitmix(2 * id + 1) % (size - 1) + 1 for id in range(500)]
        pairs = zip(expected, steps, strict=True)
        assert second.tolist() == [(row + step) % size for row, step in pairs]
        assert (first != second).all()


def test_a_row_of_a_pool_is_the_weighted_sum_of_its_two() -> None:
    table = HashedTable(POOL, IMPORTANCE)
    assert (len(table), table.width) == (40, 5)
    first, second = pool_rows(np.arange(40), 7)
    for id, row in enumerate(table[:]):
        expected = IMPORTANCE[id, 0] * POOL[first[id]] + IMPORTANCE[id, 1] * POOL[second[id]]
        np.testing.assert_array_equal(row, expected)
    np.testing.assert_array_equal(table[30:35], table[:][30:35])
    np.testing.assert_array_equal(table[np.array([9, 2, 9])], table[:][[9, 2, 9]])
