"""Dimensions to which vectors may be truncated."""

from collections.abc import Collection
from typing import Literal

from embedwell_models.errors import DimensionsError, ModelError, TooManyDimensionsError

_REMEDY = 'Embedder.load(..., dimensions="any") allows more'


class AllowedDimensions:
    """The dimensions that the model declares (Matryoshka) or the user allows.

    Truncated vectors are of little use unless the model was trained for them.
    """

    def __init__(self, full: int, allowed: Collection[int]) -> None:
        """full: dimensions of the model's vectors."""
        self.full, self._allowed = full, allowed

    @classmethod
    def from_setting(
        cls, setting: str, full: int, declared: Collection[int]
    ) -> "AllowedDimensions":
        """Parse the setting: 'declared', 'any', 'none', or comma-separated numbers.

        Raises ModelError for others, and for a number that is not between 1 and `full`.
        """
        named = {"declared": declared, "any": range(1, full + 1), "none": ()}
        if setting in named:
            return cls(full, named[setting])
        try:
            numbers = sorted({int(number) for number in setting.split(",")})
        except ValueError:
            raise ModelError(
                f"dimensions: {setting!r} is not declared, any, none, or numbers such as 256,512"
            ) from None
        for number in numbers:
            if not 1 <= number <= full:
                raise ModelError(
                    f"dimensions: {number} is not between 1 and {full}, the model's dimensions"
                )
        return cls(full, numbers)

    @property
    def allowed(self) -> Literal["any"] | list[int]:
        """The dimensions below `full` to which vectors may be truncated."""
        return "any" if isinstance(self._allowed, range) else [*self._allowed]

    def check(
        self, requested: int | None, param: str = "dimensions", remedy: str = _REMEDY
    ) -> None:
        """Raise DimensionsError for dimensions that are not offered.

        param: name of the argument. remedy: what would allow other dimensions.
        """
        if requested is None or requested == self.full:
            return
        if requested < 1:
            raise DimensionsError(f"{param} is {requested}, but a vector has one or more")
        if requested > self.full:
            raise TooManyDimensionsError(
                f"{param} is {requested}, but the model has {self.full}; leave it out for all"
            )
        if requested not in self._allowed:
            offered = ", ".join(map(str, self._allowed)) or "no shorter ones"
            raise DimensionsError(
                f"vectors with {requested} dimensions are not offered: this model has "
                f"{self.full} and {offered}; {remedy}"
            )
