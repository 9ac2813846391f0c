"""Which lengths a client may have vectors cut to."""

from collections.abc import Collection
from typing import Any

from models.errors import ModelError
from service.errors import BadRequest


class Dimensions:
    """The lengths that the model declares or the operator allows, and no other.

    The first numbers of a vector are a vector of their own where the model was trained for that;
    those of any other model are only a worse one.
    """

    def __init__(self, full: int, allowed: Collection[int]) -> None:
        """full: what the model gives uncut."""
        self.full, self._allowed = full, allowed

    @classmethod
    def of(cls, setting: str, full: int, declared: Collection[int]) -> "Dimensions":
        """setting: 'declared', 'any', 'none', or numbers with commas between.

        Raises ModelError for a number that is no length of the model's vectors.
        """
        known = {"declared": declared, "any": range(1, full + 1), "none": ()}
        if setting in known:
            return cls(full, known[setting])
        numbers = sorted({int(number) for number in setting.split(",")})
        for number in numbers:
            if not 1 <= number <= full:
                raise ModelError(f"dimensions: {number} is none of 1 to {full}, the model's")
        return cls(full, numbers)

    def as_json(self) -> dict[str, Any]:
        """For /info."""
        allowed = "any" if isinstance(self._allowed, range) else self._allowed
        return {"full": self.full, "allowed": allowed}

    def check(self, asked: int | None, param: str = "dimensions") -> None:
        """Raises BadRequest for a length that is not offered. param: the field that asks for it."""
        if asked is None or asked == self.full:
            return
        if asked > self.full:
            raise BadRequest(
                f"{param} is {asked}, the model has {self.full}",
                code="too_many_dimensions",
                param=param,
            )
        if asked not in self._allowed:
            others = ", ".join(map(str, self._allowed)) or "no shorter ones"
            raise BadRequest(
                f"vectors of {asked} dimensions are not offered: this model has {self.full} and "
                f"{others}; if it serves you, the operator can allow more by EMBEDDING_DIMENSIONS",
                code="dimensions_not_offered",
                param=param,
            )
