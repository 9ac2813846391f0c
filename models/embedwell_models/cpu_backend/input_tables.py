"""Tables whose rows are the input of the first layer, as their sum or projected.

T tokens, E embedding size, D hidden size, P positions, V vocabulary.
"""

from dataclasses import dataclass, replace

import numpy as np

from embedwell_models.checkpoint.tables import PlainTable, Table
from embedwell_models.checkpoint.weights import StoredWeights, Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.encoder.batch import Batch, Integers
from embedwell_models.encoder.encoder import Linear, LinearFactory, layer_norm
from embedwell_models.positions import schemes, tables
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class InputTables:
    """Embeddings of tokens, positions and segments, in float32 in every precision.

    tokens: (V, E), read by rows if its file has half precision or quantised numbers, and the input
    is nothing else.
    positions: (P, E); None for a model that adds no positions. With `padding`, the
    padding token's row comes first: (1 + P, E). padding: id of a padding token that has no
    position; -1 for none. segments: (segments, E).
    """

    config: EncoderConfig
    tokens: Table
    positions: Floats | None
    padding: int
    segments: Floats

    @classmethod
    def of(cls, config: EncoderConfig, weights: Weights) -> "InputTables":
        """Choose the tables among the tensors of a checkpoint."""
        positions, padding = position_table(config, weights)
        # Without pairs, every token belongs to the first segment.
        nothing = np.zeros((1, config.embedding_size), dtype=np.float32)
        segments = weights.get("segment_table", nothing)
        alone = positions is None and "segment_table" not in weights
        tokens: Table
        if alone and isinstance(weights, StoredWeights):
            tokens = weights.table("token_table")
        else:
            tokens = PlainTable(weights["token_table"])
        return cls(config, tokens, positions, padding, segments)

    @property
    def read_by_rows(self) -> bool:
        """Whether rows of `tokens` become float32 when they are read, and are the whole input."""
        return self.token_rows is None

    @property
    def token_rows(self) -> Floats | None:
        """Rows of `tokens` in memory; None if they are read by rows."""
        if isinstance(self.tokens, PlainTable) and self.tokens.values.dtype == np.float32:
            return self.tokens.values
        return None

    def part(self, name: str, batch: Batch) -> Floats:
        """Return one of the embeddings whose sum is the input: (T, E)."""
        part = np.zeros((len(batch.ids), self.tokens.width), dtype=np.float32)
        if name == "token":
            part += self.tokens[batch.ids] * np.float32(self.config.token_scale)
        elif name == "segment":
            part += self.segments[0]
        elif self.positions is not None:
            part += self.positions[self._position_rows(batch)]
        return part

    def _position_rows(self, batch: Batch) -> Integers:
        if self.padding < 0:
            return batch.positions
        # The padding token does not count as a position.
        counts = (batch.ids != self.padding).astype(np.int64)
        before = counts.cumsum() - counts
        starts = np.arange(len(counts)) - batch.positions
        rows: Integers = (before - before[starts] + 1) * counts
        return rows


def position_table(config: EncoderConfig, weights: Weights) -> tuple[Floats | None, int]:
    """Return the vectors that are added at each position (P, E); None for none.

    The second result is the id of a padding token that has no position, whose row comes first: (1 +
    P, E); -1 for none.
    """
    match config.input_positions:
        case schemes.Sinusoidal() if "position_table" in weights:
            # Some checkpoints contain the table, rounded or trained further.
            return weights["position_table"], -1
        case schemes.Learned(offset=0):
            return weights["position_table"], -1
        case schemes.Learned(padding=padding):
            return weights["position_table"][padding:], padding
        case schemes.Sinusoidal() as scheme:
            rows, width = config.max_positions, config.embedding_size
            return tables.sinusoidal_table(scheme, rows, width), scheme.padding
    return None, -1


@dataclass(frozen=True)
class FactorizedInput:
    """Sum of the tables' rows (T, E), normalised and projected to (T, D).

    ALBERT: Lan et al. 2019, arXiv 1909.11942.
    """

    inputs: InputTables
    norm: tuple[Floats, Floats]
    project: Linear

    @classmethod
    def of(
        cls, inputs: InputTables, weights: Weights, linear: LinearFactory
    ) -> "FactorizedInput | None":
        """Build the projection of a checkpoint; return None if it has none."""
        if "project.weight" not in weights:
            return None
        norm = weights["norm.weight"], weights["norm.bias"]
        return cls(inputs, norm, linear(weights["project.weight"], weights["project.bias"]))

    def __call__(self, batch: Batch) -> Batch:
        """Return the batch with its projected input as token vectors."""
        vocabulary = self.inputs.config.vocab_size
        tokens = replace(batch, ids=batch.ids % vocabulary)
        rows = self.inputs.part("token", tokens) + self.inputs.part("position", tokens)
        rows += self.inputs.segments[batch.ids // vocabulary]
        vectors = self.project(layer_norm(rows, *self.norm, self.inputs.config.norm_eps))
        return replace(batch, ids=np.arange(len(batch.ids)), token_vectors=vectors)
