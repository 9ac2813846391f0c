"""Results of inputs, each of which succeeds or fails independently."""

from collections.abc import Sequence

import numpy as np

from embedwell.errors import ServiceError
from embedwell.inputs.input_row import InputRow
from embedwell_models.vectors import Floats

ItemResult = tuple[InputRow, Floats] | ServiceError
"""A tokenized input and its vector (D,), or its error."""


def stack_results(results: Sequence[ItemResult]) -> tuple[list[InputRow], Floats]:
    """Return the rows, and their vectors (B, D); raises the first error."""
    pairs = []
    for result in results:
        if isinstance(result, ServiceError):
            raise result
        pairs.append(result)
    return [row for row, _ in pairs], np.stack([vector for _, vector in pairs])
