"""Random token ids, as the engine of the library takes them."""

import numpy as np
import numpy.typing as npt

Rows = list[npt.NDArray[np.int32]]

VOCABULARY = 29000
"""Token ids are smaller than this; every model of the kit has them."""

_FIRST_ID = 1000  # of whole words in BERT's vocabulary
_LONGEST = 512


def random_rows(length: int, count: int) -> Rows:
    """Return `count` texts of random ids; lengths differ from `length` by up to a quarter."""
    noise = np.random.default_rng(0)
    spread = max(1, length // 4)
    lengths = noise.integers(length - spread, length + spread + 1, count).clip(2, _LONGEST)
    return [noise.integers(_FIRST_ID, VOCABULARY, size).astype(np.int32) for size in lengths]


def token_count(rows: Rows) -> int:
    """Return the number of tokens of all texts."""
    return sum(map(len, rows))
