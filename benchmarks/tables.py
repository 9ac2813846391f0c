"""Text tables for a terminal, and numbers with their spread."""

import statistics
from collections.abc import Sequence
from typing import Any


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a title and aligned columns, the first column to the left."""
    cells = [list(header), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [
        row[0].ljust(widths[0])
        + "".join(cell.rjust(width + 3) for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in cells
    ]
    return "\n".join(["", title, *lines])


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Return median and spread over the rounds."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def spread(figures: dict[str, Any], digits: int = 0, unit: float = 1.0) -> str:
    """Format a summary as 'median (min-max)'."""
    median, low, high = (f"{figures[key] * unit:.{digits}f}" for key in ("median", "min", "max"))
    return f"{median} ({low}-{high})"
