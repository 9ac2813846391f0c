"""Lengths that a client may truncate vectors to."""

from collections.abc import Collection
from typing import Any

from models.errors import ModelError
from service.errors import BadRequest


class Dimensions:
    """The lengths that the model declares (Matryoshka) or the operator allows.

    Truncated vectors are useful if the model was trained for that; otherwise worse.
    """

    def __init__(self, full: int, allowed: Collection[int]) -> None:
        """full: the length of the model's vectors."""
        self.full, self._allowed = full, allowed

    @classmethod
    def of(cls, setting: str, full: int, declared: Collection[int]) -> "Dimensions":
        """setting: 'declared', 'any', 'none', or numbers with commas between.

        Raises ModelError for a number that is no length of the model's vectors.
        """
        named = {"declared": declared, "any": range(1, full + 1), "none": ()}
        if setting in named:
            return cls(full, named[setting])
        numbers = sorted({int(number) for number in setting.split(",")})
        for number in numbers:
            if not 1 <= number <= full:
                raise ModelError(f"dimensions: {number} is none of 1 to {full}, the model's")
        return cls(full, numbers)

    def as_json(self) -> dict[str, Any]:
        """For /info."""
        allowed = "any" if isinstance(self._allowed, range) else self._allowed
        return {"full": self.full, "allowed": allowed}

    def check(self, requested: int | None, param: str = "dimensions") -> None:
        """Raises BadRequest for a length that is not offered. param: the field that asks for it."""
        if requested is None or requested == self.full:
            return
        if requested > self.full:
            raise BadRequest(
                f"{param} is {requested}, the model has {self.full}",
                code="too_many_dimensions",
                param=param,
            )
        if requested not in self._allowed:
            offered = ", ".join(map(str, self._allowed)) or "no shorter ones"
            raise BadRequest(
                f"vectors of {requested} dimensions are not offered: this model has "
                f"{self.full} and {offered}; if it serves you, the operator can allow more by "
                "EMBEDDING_DIMENSIONS",
                code="dimensions_not_offered",
                param=param,
            )
