"""Position schemes: kinds of position encoding with the parameters of a checkpoint."""

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """Scheme of an encoder without positions, and base class of the other schemes."""

    name: ClassVar[str] = "none"


@dataclass(frozen=True, kw_only=True)
class Learned(Scheme):
    """A trained table (Devlin et al. 2018, arXiv 1810.04805).

    offset: the row of position 0. If it is above 0, as in RoBERTa, the row before it belongs to the
    padding token, whose id is the number of that row. A padding token inside a text gets this row
    and does not count as a position.
    """

    name = "learned"
    offset: int = 0

    @property
    def padding(self) -> int:
        """Id of the padding token; -1 for none."""
        return self.offset - 1


@dataclass(frozen=True, kw_only=True)
class Sinusoidal(Scheme):
    """Sines and cosines of the position (Vaswani et al. 2017, arXiv 1706.03762).

    halves: whether all sines precede all cosines, with the frequencies of tensor2tensor. offset:
    see Learned; the vector of the padding token is zero.
    """

    name = "sinusoidal"
    base: float = 10_000.0
    halves: bool = False
    offset: int = 0

    @property
    def padding(self) -> int:
        """Id of the padding token; -1 for none."""
        return self.offset - 1


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """Scaling of rotary frequencies for texts that are longer than in training.

    kind: default (none), linear, dynamic (NTK by the length of the text), ntk (for any length),
    yarn (arXiv 2309.00071), llama3 (arXiv 2407.21783) or longrope (arXiv 2402.13753).
    factor: divides frequencies. original: maximum number of tokens of a text in training.
    magnitude: multiplies cosine and sine.
    fast, slow: turns within `original` tokens. yarn and llama3 keep frequencies with more than
    `fast` turns, divide frequencies with fewer than `slow` turns, and interpolate in between.
    whole: whether yarn rounds the first and last column of the interpolation.
    short, long: longrope's divisors of each pair's frequency, for texts of up to `original` tokens
    and for longer texts.
    """

    kind: str = "default"
    factor: float = 1.0
    original: int = 0
    magnitude: float = 1.0
    fast: float = 32.0
    slow: float = 1.0
    whole: bool = True
    short: tuple[float, ...] = ()
    long: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rotary(Scheme):
    """Rotation of queries and keys by their positions (RoPE; Su et al. 2021, arXiv 2104.09864).

    dim: number of rotated features of a head, which are its first features. interleaved: whether
    pairs are the columns (2i, 2i + 1), as in the paper and in GPT-J; otherwise pairs are (i, i +
    dim / 2).
    frequencies: radians per position of each pair, from a checkpoint that stores them; if empty,
    they are computed from base.
    """

    name = "rotary"
    dim: int
    base: float = 10_000.0
    interleaved: bool = False
    frequencies: tuple[float, ...] = ()
    scaling: Scaling = field(default_factory=Scaling)


@dataclass(frozen=True, kw_only=True)
class GridRotary(Rotary):
    """Rotation by the row and the column of an image's patch (EVA-02; arXiv 2303.11331).

    The first half of the pairs is rotated by the row, the other half by the column. Position 0 is
    the class token, which is not rotated.
    side: number of patches in a row. step: distance of neighbouring patches.
    """

    side: int
    step: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Alibi(Scheme):
    """Penalty of scores that grows with the distance (Press et al. 2021, arXiv 2108.12409).

    steepest: the slopes of H heads are 2^(-steepest * i / H) for i from 1 to H.
    """

    name = "alibi"
    steepest: float = 8.0


@dataclass(frozen=True, kw_only=True)
class Buckets(Scheme):
    """A trained bias for each head and bucket of distances (T5; Raffel et al. 2020).

    max_distance: distance at which the last bucket begins. shared: whether all layers have the same
    biases.
    """

    name = "relative"
    buckets: int = 32
    max_distance: int = 128
    shared: bool = True


@dataclass(frozen=True, kw_only=True)
class Disentangled(Scheme):
    """Scores between content and relative position (DeBERTa; He et al. 2020, arXiv 2006.03654).

    buckets: number of buckets on each side, first exact and then logarithmic (arXiv 2111.09543); 0
    for no buckets. max_distance: distance at which the last bucket begins.
    content_to_position, position_to_content: whether the score is added.
    shared: whether positions are projected by the layer's query and key weights.
    """

    name = "disentangled"
    buckets: int
    max_distance: int
    content_to_position: bool = True
    position_to_content: bool = True
    shared: bool = True

    @property
    def span(self) -> int:
        """Number of distances or buckets on each side."""
        return self.buckets or self.max_distance


@dataclass(frozen=True, kw_only=True)
class TransformerXL(Scheme):
    """Scores with a sinusoid of the distance (Dai et al. 2019, arXiv 1901.02860)."""

    name = "transformer_xl"
    base: float = 10_000.0
