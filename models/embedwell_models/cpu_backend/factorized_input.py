"""Input of an encoder whose tables are narrower than its states.

ALBERT: Lan et al. 2019, arXiv 1909.11942. T tokens, E embedding size, D hidden size.
"""

from dataclasses import dataclass, replace

import numpy as np

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.cpu_backend.input_tables import InputTables
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.layers import Linear, LinearFactory, layer_norm
from embedwell_models.vectors import Floats


@dataclass(frozen=True)
class FactorizedInput:
    """Sum of the tables' rows (T, E), normalised and projected to (T, D)."""

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
