"""Configuration of an encoder, independent of the checkpoint's family."""

from dataclasses import dataclass, field

from embedwell_models.positions.schemes import Scheme

UNLIMITED = 1 << 20  # more tokens than any request may have


@dataclass(frozen=True)
class Heads:
    """Heads of a layer's attention.

    count: number of query heads. kv_count: number of key and value heads. size: features of a head.
    """

    count: int
    kv_count: int
    size: int


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Sizes and options of a transformer encoder; a size of 0 means its usual value.

    max_positions: tokens of the longest text in training, and rows of a table of positions.
    embedding_size: width of the tables; they are projected to hidden_size if it differs.
    num_kv_heads: key and value heads, each shared by several query heads.
    local_head_size, local_kv_heads: the same for layers with a window, if they differ.
    normed_values: whether each value head is normalised, without a weight.
    arrangement: place of the norms. post: after each sum. pre: before each part (attention,
    feed-forward network). sandwich: before and after each part. parallel: before each part, and
    both parts read the same input. shared: parallel with a single norm. twice: post, and the output
    of the attention is also added to its input and normalised once more.
    activation: one of the values of ACTIVATIONS. gated: whether it is multiplied by a second linear
    projection (GLU).
    token_scale: factor of token vectors. scale: factor of scores, usually 1 / sqrt(head_size).
    softcap: scores become softcap * tanh(scores / softcap).
    input_positions: scheme of the positions that are added to token vectors. positions: scheme of
    the attention. local_positions: scheme of layers with a window, if it differs.
    windows: for each layer, the number of visible tokens on each side; None for the whole text.
    expert_layers: indices of layers whose feed-forward network is a mixture of `experts`; each
    token uses `top_experts` of them.
    convolution_layers: indices of layers in which a convolution over `convolution_width` tokens
    replaces the attention.
    distinct_layers: number of layers with weights of their own; further layers repeat these
    weights.
    segments: whether a segment vector is added. two_segments: whether the second text of a pair is
    in the second segment, see embedwell_models.encoder.batch.
    subwords: whether an id plus vocab_size continues the word of the id before it. unknown_id: id
    of words without a vector, which follows the ids of the table's rows; None if every id has a
    vector.
    limited: whether max_positions limits the length of a text although there is no table of
    positions.

    Raises ValueError if num_heads does not divide hidden_size, or kv heads do not divide num_heads.
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
    input_positions: Scheme = field(default_factory=Scheme)
    positions: Scheme = field(default_factory=Scheme)
    local_positions: Scheme | None = None
    windows: tuple[int | None, ...] = ()
    embedding_size: int = 0
    head_size: int = 0
    num_kv_heads: int = 0
    local_head_size: int = 0
    local_kv_heads: int = 0
    normed_values: bool = False
    distinct_layers: int = 0
    expert_layers: tuple[int, ...] = ()
    experts: int = 0
    top_experts: int = 0
    convolution_layers: tuple[int, ...] = ()
    convolution_width: int = 0
    norm: str = "layer"
    arrangement: str = "post"
    gated: bool = False
    limited: bool = False
    causal: bool = False
    segments: bool = False
    two_segments: bool = False
    subwords: bool = False
    unknown_id: int | None = None
    token_scale: float = 1.0
    scale: float = 0.0
    softcap: float = 0.0

    def __post_init__(self) -> None:
        if not self.head_size and self.hidden_size % self.num_heads:
            raise ValueError(f"{self.num_heads} heads do not divide hidden_size {self.hidden_size}")
        self._fill("head_size", self.hidden_size // self.num_heads)
        self._fill("embedding_size", self.hidden_size)
        self._fill("num_kv_heads", self.num_heads)
        self._fill("local_head_size", self.head_size)
        self._fill("local_kv_heads", self.num_kv_heads)
        self._fill("distinct_layers", self.num_layers)
        self._fill("scale", self.head_size**-0.5)
        self._fill("windows", (None,) * self.num_layers)
        for kv_heads in (self.num_kv_heads, self.local_kv_heads):
            if self.num_heads % kv_heads:
                raise ValueError(f"{kv_heads} key heads do not divide {self.num_heads} heads")

    def _fill(self, name: str, value: object) -> None:
        if not getattr(self, name):
            object.__setattr__(self, name, value)

    @property
    def input_parts(self) -> tuple[str, ...]:
        """Names of the embeddings whose sum is the input."""
        has_positions = self.input_positions.name != Scheme.name
        return ("token", *["position"] * has_positions, *["segment"] * self.segments)

    @property
    def min_tokens(self) -> int:
        """Minimum number of tokens of a text: 0 for static embeddings (mean: zero), else 1."""
        return min(1, self.num_layers)

    @property
    def num_vectors(self) -> int:
        """Number of ids that have a vector; these are the first ids."""
        return self.vocab_size if self.unknown_id is None else self.unknown_id

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens of a text; most models limit it only by a table of positions."""
        has_limit = self.limited or "position" in self.input_parts
        return self.max_positions if has_limit else UNLIMITED

    def heads(self, layer: int) -> Heads:
        """Return the heads of a layer's attention."""
        if not self.windows or self.windows[layer] is None:  # a table has no layers
            return Heads(self.num_heads, self.num_kv_heads, self.head_size)
        return Heads(self.num_heads, self.local_kv_heads, self.local_head_size)

    def scheme(self, layer: int) -> Scheme:
        """Return the position scheme of a layer's attention."""
        if self.local_positions is None or self.windows[layer] is None:
            return self.positions
        return self.local_positions
