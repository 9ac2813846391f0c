"""Configuration of an encoder, independent of the checkpoint's family."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from embedwell_models.config.layer_spec import AttentionSpec, FeedForwardSpec, LayerSpec
from embedwell_models.positions.schemes import Scheme, Sinusoidal, TransformerXL

UNLIMITED = 1 << 20  # more tokens than any request may have
_MAX_COMPUTED = 1 << 16  # rows of a computed table of positions, whose memory no file bounds


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Sizes and options of an encoder, with a record for each layer.

    max_positions: tokens of the longest text in training, and rows of a table of positions.
    embedding_size: width of the tables; they are projected to hidden_size if it differs. 0 for
    hidden_size.
    arrangement: place of the norms. post: after each sum. pre: before each part (attention,
    feed-forward network). sandwich: before and after each part. parallel: before each part, and
    both parts read the same input. parallel_one_norm: parallel with a single norm. double_post:
    post, and the output of the attention is also added to its input and normalised once more.
    token_scale: factor of token vectors.
    input_positions: scheme of the positions that are added to token vectors.
    segments: whether a segment vector is added. two_segments: whether the second text of a pair is
    in the second segment, see embedwell_models.encoder.batch.
    subwords: whether an id plus vocab_size continues the word of the id before it. unknown_id: id
    of words without a vector, which follows the ids of the table's rows; None if every id has a
    vector.
    limited: whether max_positions limits the length of a text although there is no table of
    positions.

    Raises ValueError for a computed table of too many positions, and for an odd hidden_size whose
    features Transformer-XL's positions cannot pair.
    """

    family: str = ""
    vocab_size: int
    hidden_size: int
    layers: tuple[LayerSpec, ...]
    max_positions: int
    norm_eps: float
    input_positions: Scheme = field(default_factory=Scheme)
    embedding_size: int = 0
    norm: str = "layer"
    arrangement: str = "post"
    limited: bool = False
    causal: bool = False
    segments: bool = False
    two_segments: bool = False
    subwords: bool = False
    unknown_id: int | None = None
    token_scale: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.input_positions, Sinusoidal) and self.max_positions > _MAX_COMPUTED:
            raise ValueError(
                f"{self.max_positions} computed positions are not supported; the limit is "
                f"{_MAX_COMPUTED}"
            )
        schemes = [layer.positions for layer in self.layers]
        if self.hidden_size % 2 and any(isinstance(each, TransformerXL) for each in schemes):
            raise ValueError(
                f"hidden_size {self.hidden_size} is odd, but the model's relative positions need "
                "an even number: their features are pairs"
            )
        object.__setattr__(self, "embedding_size", self.embedding_size or self.hidden_size)

    @property
    def num_layers(self) -> int:
        """Number of layers; 0 for static embeddings."""
        return len(self.layers)

    @property
    def attention(self) -> AttentionSpec:
        """Attention of the first layer that has one; if none has, one head of the states' width."""
        mixers = (layer.mixer for layer in self.layers)
        none = AttentionSpec(heads=1, kv_heads=1, head_size=self.hidden_size, scale=1.0)
        return next((mixer for mixer in mixers if isinstance(mixer, AttentionSpec)), none)

    @property
    def feed_forward(self) -> FeedForwardSpec:
        """Feed-forward network of the first layer; one of no features if there are no layers."""
        return self.layers[0].feed_forward if self.layers else FeedForwardSpec(inner=0)

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
    def num_ids(self) -> int:
        """Number of ids in rows: those of a second segment, or of later subwords, are apart."""
        return self.vocab_size * (2 if self.two_segments or self.subwords else 1)

    @property
    def num_vectors(self) -> int:
        """Number of ids that have a vector; these are the first ids."""
        return self.vocab_size if self.unknown_id is None else self.unknown_id

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens of a text; most models limit it only by a table of positions."""
        has_limit = self.limited or "position" in self.input_parts
        return self.max_positions if has_limit else UNLIMITED

    def with_windows(self, windows: Sequence[int | None], **local: Any) -> "EncoderConfig":
        """Return this config with a window for each layer; None for the whole text.

        local: other fields of AttentionSpec for layers with a window.
        """
        layers = []
        for layer, window in zip(self.layers, windows, strict=True):
            changes = {} if window is None else local
            mixer = replace(self.attention, window=window, **changes)
            layers.append(replace(layer, mixer=mixer))
        return replace(self, layers=tuple(layers))


def plain_config(  # noqa: PLR0913 - families pass options by name
    *,
    hidden_size: int,
    num_layers: int,
    num_heads: int,
    num_kv_heads: int = 0,
    head_size: int = 0,
    intermediate_size: int,
    activation: str = "gelu",
    gated: bool = False,
    inner_norm_eps: float = 0.0,
    positions: Scheme | None = None,
    scale: float = 0.0,
    softcap: float = 0.0,
    normed_values: bool = False,
    windows: Sequence[int | None] = (),
    local: Mapping[str, Any] | None = None,
    **others: Any,
) -> EncoderConfig:
    """Build the configuration of an encoder whose layers are equal but for their windows.

    The options of layers are those of AttentionSpec and FeedForwardSpec; a size or scale of 0 means
    its usual value. windows: of each layer; by default all layers see the whole text. local: other
    fields of AttentionSpec for layers with a window. others: fields of EncoderConfig.

    Raises ValueError for sizes that do not fit each other.
    """
    if not head_size and hidden_size % num_heads:
        raise ValueError(f"{num_heads} heads do not divide hidden_size {hidden_size}")
    head_size = head_size or hidden_size // num_heads
    attention = AttentionSpec(
        heads=num_heads,
        kv_heads=num_kv_heads or num_heads,
        head_size=head_size,
        positions=positions or Scheme(),
        scale=scale or head_size**-0.5,
        softcap=softcap,
        normed_values=normed_values,
    )
    network = FeedForwardSpec(
        inner=intermediate_size,
        activation=activation,
        gated=gated,
        inner_norm_eps=inner_norm_eps,
    )
    layers = tuple(
        LayerSpec(weights=index, mixer=attention, feed_forward=network)
        for index in range(num_layers)
    )
    config = EncoderConfig(hidden_size=hidden_size, layers=layers, **others)
    return config.with_windows(windows, **(local or {})) if windows else config
