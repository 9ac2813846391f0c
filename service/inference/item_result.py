"""What becomes of each input where one may fail and the others not."""

from collections.abc import Sequence

import numpy as np

from models.vectors import Floats
from service.errors import ServiceError
from service.inputs.row import Row

ItemResult = tuple[Row, Floats] | ServiceError
"""What was read of an input and its vector (D,), or what is wrong with it."""


def together(outcomes: Sequence[ItemResult]) -> tuple[list[Row], Floats]:
    """All of them together: rows, (B, D); raises the first error."""
    good = []
    for outcome in outcomes:
        if isinstance(outcome, ServiceError):
            raise outcome
        good.append(outcome)
    return [row for row, _ in good], np.stack([vector for _, vector in good])
