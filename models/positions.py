"""Position schemes: how an encoder learns the order of its tokens, behind three hooks."""

from torch import Tensor


class Positions:
    """A scheme overrides the hooks it needs; the encoder calls all three and never asks which."""

    causal = False
    """Whether a token sees none that come later."""
    table: Tensor | None = None
    """(P, D): what `embed` adds to a token's vector at each position, if that is all it does."""

    @property
    def rotates(self) -> bool:
        """Whether `rotate` ever turns something."""
        return type(self).rotate is not Positions.rotate

    def embed(self, hidden: Tensor, positions: Tensor) -> Tensor:
        """What enters the first layer: (T, D) token vectors, (T,) positions -> (T, D)."""
        return hidden

    def rotate(self, qkv: Tensor, positions: Tensor) -> Tensor:
        """Queries and keys turned by their positions: (T, 3, H, Dh) -> (T, 3, H, Dh)."""
        return qkv

    def bias(self, reach: int) -> Tensor | None:
        """What is added to the scores, by the key's position minus the query's.

        (H, 2 * reach - 1): the distances 1 - reach to reach - 1, in order.
        """
        return None


class Learned(Positions):
    """A trained vector for each position (Devlin et al. 2018, "BERT", arXiv 1810.04805)."""

    def __init__(self, table: Tensor, constant: Tensor) -> None:
        """table: (P, D). constant: (D,), the same for every token, folded in once."""
        self.table: Tensor = table + constant

    def embed(self, hidden: Tensor, positions: Tensor) -> Tensor:
        return hidden + self.table[positions]
