"""Rows of codes are the numbers of the vectors in codebooks, by turns."""

import numpy as np

from embedwell_models.tables.codes import CodedTable

SOME = np.random.default_rng(1)
CODES = SOME.integers(0, 9, (50, 4)).astype(np.uint8)
CODEBOOKS = SOME.normal(size=(4, 9, 3)).astype(np.float32)
TABLE = CodedTable(CODES, CODEBOOKS)
EXPECTED = [[CODEBOOKS[m, row[m], j] for j in range(3) for m in range(4)] for row in CODES]


def test_a_row_is_the_vector_of_each_code() -> None:
    assert (len(TABLE), TABLE.width) == (50, 12)
    np.testing.assert_array_equal(TABLE[:], EXPECTED)
    np.testing.assert_array_equal(TABLE[7:9], EXPECTED[7:9])
    chosen = np.array([40, 3, 3])
    np.testing.assert_array_equal(TABLE[chosen], np.array(EXPECTED)[chosen])
    assert TABLE[:].dtype == np.float32 and TABLE[chosen[:0]].shape == (0, 12)
