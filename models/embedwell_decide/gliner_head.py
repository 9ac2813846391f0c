"""The layers of GLiNER2 that score labels, from the states of its encoder.

N labels, D hidden size.
"""

from collections.abc import Collection

import numpy as np

from embedwell_decide.gliner_options import CLASSIFIER, LABEL, GlinerOptions
from embedwell_models.checkpoint import weights
from embedwell_models.encoder.batch import Batch
from embedwell_models.errors import ModelError
from embedwell_models.loading.loaded_model import LoadedModel
from embedwell_models.outputs.text_outputs import TextOutputs
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.vectors import Floats


def load(model: LoadedModel) -> "GlinerOutputs":
    """Load the layers of a model; raises ModelError for missing tensors or wrong shapes."""
    description = model.description
    options = GlinerOptions.read(description.encoder)
    shapes = dict(options.shapes(description.spec.config.hidden_size))
    prefix = CLASSIFIER.removesuffix("*")
    arrays = weights.read_others(description.encoder, shapes, lambda name: name.startswith(prefix))
    return GlinerOutputs(model, arrays, options)


class GlinerOutputs:
    """Logits of the labels in each row: a hidden layer and a score of the state of each marker."""

    def __init__(
        self, model: LoadedModel, arrays: dict[str, Floats], options: GlinerOptions
    ) -> None:
        self._model, self._label = model, marker_id(model.tokenizer, LABEL)
        self._temperature = np.float32(options.temperature)
        (first, last), linear = options.layers, model.linear
        self._hidden = linear(
            arrays[f"{first}.weight"], arrays[f"{first}.bias"], "relu", name=first
        )
        self._output = linear(arrays[f"{last}.weight"], arrays[f"{last}.bias"], name=last)

    def __call__(self, batch: Batch, _: Collection[str]) -> list[TextOutputs]:
        """Compute the logits of each row: (N, 1)."""
        num_layers = self._model.description.spec.config.num_layers
        states = batch.split(self._model.encoder.states(batch, num_layers))
        rows = zip(batch.split(batch.ids), states, strict=True)
        return [TextOutputs(multi=self._logits(states[ids == self._label])) for ids, states in rows]

    def _logits(self, labels: Floats) -> Floats:
        if not len(labels):  # the check of the engine at its start sends any text
            return np.zeros((1, 1), dtype=np.float32)
        return self._output(self._hidden(labels)) / self._temperature


def marker_id(tokenizer: Tokenizer, marker: str) -> int:
    """Return the id of a marker; raises ModelError for a tokenizer without it."""
    ids = run_to_completion(tokenizer.ids_without_special(marker))
    if [*map(tokenizer.name, ids)] != [marker]:
        raise ModelError(f"the tokenizer of a GLiNER2 has no token {marker}")
    return ids[0]
