"""Dimensions to which clients may truncate vectors."""

from collections.abc import Collection
from typing import Literal

from embedwell.errors import BadRequest
from embedwell_models.errors import ModelError


class AllowedDimensions:
    """The dimensions that the model declares (Matryoshka) or the operator allows.

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

        Raises ModelError for a number that is not between 1 and `full`.
        """
        named = {"declared": declared, "any": range(1, full + 1), "none": ()}
        if setting in named:
            return cls(full, named[setting])
        numbers = sorted({int(number) for number in setting.split(",")})
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

    def check(self, requested: int | None, param: str = "dimensions") -> None:
        """Raise BadRequest for dimensions that are not offered.

        param: name of the request's field.
        """
        if requested is None or requested == self.full:
            return
        if requested > self.full:
            raise BadRequest(
                f"{param} is {requested}, but the model has {self.full}; leave it out for all",
                code="too_many_dimensions",
                param=param,
            )
        if requested not in self._allowed:
            offered = ", ".join(map(str, self._allowed)) or "no shorter ones"
            raise BadRequest(
                f"vectors with {requested} dimensions are not offered: this model has "
                f"{self.full} and {offered}; the operator can allow more with "
                "EMBEDWELL_DIMENSIONS",
                code="dimensions_not_offered",
                param=param,
            )
