"""Tests of the dimensions to which vectors may be truncated."""

from collections.abc import Collection

import pytest

from embedwell_models.errors import DimensionsError, ModelError
from embedwell_models.model_files.dimensions import AllowedDimensions


@pytest.mark.parametrize(
    ("choice", "declared", "allowed"),
    [
        ("declared", (), set[int]()),
        ("declared", (2, 4), {2, 4}),
        ("declared", range(1, 9), set(range(1, 9))),
        ("any", (2, 4), set(range(1, 9))),
        ("none", (2, 4), set[int]()),
        ("3,5", (2, 4), {3, 5}),
    ],
)
def test_the_choice_overrides_the_declared_dimensions(
    choice: str, declared: Collection[int], allowed: set[int]
) -> None:
    dimensions = AllowedDimensions.from_setting(choice, 8, declared)
    for requested in range(1, 8):
        if requested in allowed:
            dimensions.check(requested)
        else:
            with pytest.raises(DimensionsError, match="are not offered"):
                dimensions.check(requested)
    dimensions.check(None)
    dimensions.check(8)
    with pytest.raises(DimensionsError, match="dimensions is 9, but the model has 8"):
        dimensions.check(9)
    with pytest.raises(DimensionsError, match="dimensions is 0, but a vector has one or more"):
        dimensions.check(0)


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ("0", "0 is not between 1 and 8"),
        ("4,9", "9 is not between 1 and 8"),
        ("all", "'all' is not declared, any, none, or numbers"),
    ],
)
def test_impossible_dimensions_are_refused(choice: str, problem: str) -> None:
    with pytest.raises(ModelError, match=f"dimensions: {problem}"):
        AllowedDimensions.from_setting(choice, 8, ())
