"""Which lengths a client may have vectors cut to."""

from collections.abc import Collection
from typing import Any

from models.vectors import Floats, finish
from service.errors import BadRequest


class Dimensions:
    """Cuts vectors to the lengths that the model declares or the operator allows, and no other.

    The first numbers of a vector are a vector of their own where the model was trained for that;
    those of any other model are only a worse one.
    """

    def __init__(self, full: int, allowed: Collection[int]) -> None:
        """full: what the model gives uncut."""
        self.full, self._allowed = full, allowed

    @classmethod
    def of(cls, setting: str, full: int, declared: Collection[int]) -> "Dimensions":
        """setting: 'declared', 'any', 'none', or numbers with commas between."""
        known = {"declared": declared, "any": range(1, full + 1), "none": ()}
        if setting in known:
            return cls(full, known[setting])
        return cls(full, sorted(int(number) for number in setting.split(",")))

    def told(self) -> dict[str, Any]:
        """For /info."""
        allowed = "any" if isinstance(self._allowed, range) else self._allowed
        return {"full": self.full, "allowed": allowed}

    def cut(self, vectors: Floats, asked: int | None, normalized: bool) -> Floats:
        """The first numbers of each vector, normalised after the cut; raises BadRequest."""
        if asked is not None and asked != self.full:
            self._check(asked)
        return finish(vectors, asked, normalized)

    def _check(self, asked: int) -> None:
        if asked > self.full:
            raise BadRequest(
                f"dimensions is {asked}, the model has {self.full}",
                code="too_many_dimensions",
                param="dimensions",
            )
        if asked not in self._allowed:
            others = ", ".join(map(str, self._allowed)) or "no shorter ones"
            raise BadRequest(
                f"vectors of {asked} dimensions are not offered: this model has {self.full} and "
                f"{others}; if it serves you, the operator can allow more by EMBEDDING_DIMENSIONS",
                code="dimensions_not_offered",
                param="dimensions",
            )
