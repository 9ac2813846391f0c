"""Position schemes as checkpoints state them: the numbers from which tables and hooks are made."""

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """How an encoder learns the order of its tokens; this one does not."""

    name: ClassVar[str] = "none"


@dataclass(frozen=True, kw_only=True)
class Learned(Scheme):
    """A trained table (Devlin et al. 2018, arXiv 1810.04805).

    offset: the row of position 0. In RoBERTa's tables it comes after that of the padding token,
    which has that number for its id: inside of a text it takes that row, and does not count.
    """

    name = "learned"
    offset: int = 0

    @property
    def padding(self) -> int:
        """The id of that token; -1 for none."""
        return self.offset - 1


@dataclass(frozen=True, kw_only=True)
class Sinusoidal(Scheme):
    """Sines and cosines of the position (Vaswani et al. 2017, arXiv 1706.03762)."""

    name = "sinusoidal"
    base: float = 10_000.0


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """How rotary frequencies are stretched for texts longer than those of the training.

    kind: default, linear, dynamic (NTK), ntk (always the same), yarn (arXiv 2309.00071) or llama3
    (arXiv 2407.21783).
    original: the longest text of the training. magnitude: what cosine and sine are multiplied by.
    fast, slow: rotations within `original` above and below which yarn keeps and interpolates a
    frequency; whole: rounds the columns between which it does both. llama3 has them as its high
    and low frequency factors.
    """

    kind: str = "default"
    factor: float = 1.0
    original: int = 0
    magnitude: float = 1.0
    fast: float = 32.0
    slow: float = 1.0
    whole: bool = True


@dataclass(frozen=True, kw_only=True)
class Rotary(Scheme):
    """Queries and keys turned by an angle for each position (Su et al. 2021, arXiv 2104.09864).

    dim: how many features of a head are turned, the first ones. interleaved: pairs are columns
    (2i, 2i + 1), as in the paper and in GPT-J; otherwise (i, i + dim / 2). frequencies: radians per
    position of each pair, where a checkpoint holds them (rounded); empty: as base says.
    """

    name = "rotary"
    dim: int
    base: float = 10_000.0
    interleaved: bool = False
    frequencies: tuple[float, ...] = ()
    scaling: Scaling = field(default_factory=Scaling)


@dataclass(frozen=True, kw_only=True)
class Alibi(Scheme):
    """A penalty that grows with the distance (Press et al. 2021, arXiv 2108.12409).

    steepest: the last head's slope is 2 to the power of minus this.
    """

    name = "alibi"
    steepest: float = 8.0


@dataclass(frozen=True, kw_only=True)
class Buckets(Scheme):
    """A trained number for each head and bucket of distances (Raffel et al. 2020, T5).

    shared: whether all layers have the same ones.
    """

    name = "relative"
    buckets: int = 32
    max_distance: int = 128
    shared: bool = True


@dataclass(frozen=True, kw_only=True)
class Disentangled(Scheme):
    """Scores of content with relative position (He et al. 2020, DeBERTa, arXiv 2006.03654).

    span: distances told apart on each side. buckets: 0, or how many of them are exact and
    logarithmic together (arXiv 2111.09543). max_distance: where the last bucket begins.
    content_to_position, position_to_content: which of the two scores are added.
    shared: positions go through the layer's own query and key products.
    """

    name = "disentangled"
    buckets: int
    max_distance: int
    content_to_position: bool = True
    position_to_content: bool = True
    shared: bool = True

    @property
    def span(self) -> int:
        return self.buckets or self.max_distance


@dataclass(frozen=True, kw_only=True)
class TransformerXL(Scheme):
    """Scores with a sinusoid of the distance (Dai et al. 2019, Transformer-XL, 1901.02860)."""

    name = "transformer_xl"
    base: float = 10_000.0
