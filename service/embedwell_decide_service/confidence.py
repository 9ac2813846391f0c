"""Confidence in an answer, as the description of System One's API defines it.

https://pypi.org/project/jevcompat states the formulas.
"""

from collections.abc import Sequence


def of_choice(probabilities: Sequence[float]) -> float:
    """Return how far the best option is above chance: 0 for equal options, 1 for a certain one."""
    chance = 1 / len(probabilities)
    return 1.0 if chance == 1 else (max(probabilities) - chance) / (1 - chance)


def of_score(probabilities: Sequence[float]) -> float:
    """Return 1 minus the mean distance from the best level, in units of that of equal levels."""
    levels = range(len(probabilities))
    if len(levels) == 1:
        return 1.0
    best = max(levels, key=probabilities.__getitem__)
    spread = sum(p * abs(level - best) for level, p in zip(levels, probabilities, strict=True))
    middle = (len(levels) - 1) / 2
    uniform = sum(abs(level - middle) for level in levels) / len(levels)
    return max(0.0, 1 - spread / uniform)


def expectation(probabilities: Sequence[float]) -> float:
    """Return the mean level."""
    return sum(level * p for level, p in enumerate(probabilities))
