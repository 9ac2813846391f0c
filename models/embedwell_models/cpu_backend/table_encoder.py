"""Encoder of a model without layers, which numpy computes: rows of a table, and their pooling.

B sequences, T tokens, D dimensions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from embedwell_models.cpu_backend.encoder_factory import compiled_precisions, unsupported
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import SequentialEncoder
from embedwell_models.encoder.pooling import pool_batch
from embedwell_models.vectors import Floats


class TableEncoder(SequentialEncoder):
    """Encoder whose states are the rows of a table, of any width."""

    def __init__(self, inputs: InputTables) -> None:
        self._inputs = inputs

    def states(self, batch: Batch, num_layers: int) -> Floats:
        """Return the row of each token: (T, D)."""
        return self._inputs.part("token", batch)

    def vectors(self, batch: Batch, poolings: Sequence[str]) -> Floats:
        """Pool the rows, concatenating the poolings: (B, poolings * D)."""
        return pool_batch(self.states(batch, 0), batch, poolings)


@dataclass(frozen=True)
class TableEncoderFactory:
    """Factory of a table's encoder, which is the same in every precision.

    cpu_features: CPU features that may be used, see embedwell_models.cpu_backend.library.
    """

    inputs: InputTables
    cpu_features: frozenset[str]

    half_precision = None  # `auto` has nothing to compare

    def supported(self) -> list[str]:
        """The precision that `auto` takes."""
        return ["float32"]

    def check(self, dtype: str) -> None:
        """Raise ModelError for a precision that a model with layers would not have either."""
        accepted = ["float32", *compiled_precisions(self.cpu_features)]
        if dtype not in accepted:
            raise unsupported(dtype, "cpu", accepted)

    def build(self, dtype: str) -> TableEncoder:
        """Return the encoder, which has no layers; in every precision it is the same."""
        return TableEncoder(self.inputs)

    def build_reference(self) -> TableEncoder:
        """Return the encoder."""
        return TableEncoder(self.inputs)
