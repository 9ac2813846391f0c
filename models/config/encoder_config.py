"""The shape of an encoder, whatever checkpoint it comes from."""

from dataclasses import dataclass, field

from models.positions.schemes import Scheme

ENDLESS = 1 << 20  # tokens; more than any request may have


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Sizes and kinds of the parts of a transformer encoder; 0 is the common value of a size.

    max_positions: tokens that the model is made for, and rows of a table of positions.
    embedding_size: of the tables, projected to hidden_size where it differs.
    num_kv_heads: heads of keys and values, each read by several queries.
    arrangement: where the norms are. post: after each sum. pre: before each part. sandwich:
    before and after each part. parallel: before, and both parts read the same input. shared:
    so, and both parts have one norm. twice: after each sum, and what the attention gives is added
    to its input and normalised once more.
    activation: one of the values of ACTIVATIONS.
    gated: the feed-forward network multiplies an activated product by another one.
    token_scale: times the token's vector. scale: times the scores, 1 / sqrt(head_size).
    softcap: scores become softcap * tanh(scores / softcap).
    table: the scheme of what is added to the token's vector. positions: that of the attention in
    every layer, or where there is `local` too, in those that see the whole text.
    reaches: for each layer how far its tokens see on each side, None for the whole text.
    distinct_layers: how many layers have weights of their own; others repeat them.
    bounded: whether no text has more than max_positions tokens, although no table ends there.

    Raises ValueError for sizes that do not divide.
    """

    family: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    max_positions: int
    norm_eps: float
    activation: str = "gelu"
    table: Scheme = field(default_factory=Scheme)
    positions: Scheme = field(default_factory=Scheme)
    local: Scheme | None = None
    reaches: tuple[int | None, ...] = ()
    embedding_size: int = 0
    head_size: int = 0
    num_kv_heads: int = 0
    distinct_layers: int = 0
    norm: str = "layer"
    arrangement: str = "post"
    gated: bool = False
    bounded: bool = False
    causal: bool = False
    segments: bool = False
    token_scale: float = 1.0
    scale: float = 0.0
    softcap: float = 0.0

    def __post_init__(self) -> None:
        if not self.head_size and self.hidden_size % self.num_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} does not divide into {self.num_heads} heads"
            )
        self._fill("head_size", self.hidden_size // self.num_heads)
        self._fill("embedding_size", self.hidden_size)
        self._fill("num_kv_heads", self.num_heads)
        self._fill("distinct_layers", self.num_layers)
        self._fill("scale", self.head_size**-0.5)
        self._fill("reaches", (None,) * self.num_layers)
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"{self.num_heads} heads do not divide among {self.num_kv_heads} of keys"
            )

    def _fill(self, name: str, value: object) -> None:
        if not getattr(self, name):
            object.__setattr__(self, name, value)

    @property
    def parts(self) -> tuple[str, ...]:
        """The summands of the input."""
        placed = self.table.name != Scheme.name
        return ("token", *["position"] * placed, *["segment"] * self.segments)

    @property
    def shortest(self) -> int:
        """The fewest tokens of a text: without layers, one of none has a mean, zero."""
        return min(1, self.num_layers)

    @property
    def longest(self) -> int:
        """The most tokens of a text: mostly a table of positions has an end, and nothing else."""
        return self.max_positions if self.bounded or "position" in self.parts else ENDLESS

    def scheme(self, layer: int) -> Scheme:
        """The position scheme of a layer."""
        return self.positions if self.local is None or self.reaches[layer] is None else self.local
