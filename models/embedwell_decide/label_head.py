"""The layers of GLiClass that compare a text with labels, from the states of its encoder.

T tokens, N labels, D hidden size.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from embedwell_decide.label_options import LabelOptions
from embedwell_models.checkpoint import weights
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import LinearFactory
from embedwell_models.loading.loaded_model import LoadedModel
from embedwell_models.outputs.text_outputs import TextOutputs
from embedwell_models.vectors import Floats

Network = Callable[[Floats], Floats]
"""Function of rows: (N, in) -> (N, out)."""
Networks = Callable[..., Network]
"""Builds a network from the names of its layers, see `_network`."""
Scorer = Callable[[Floats, Floats], Floats]
"""Function of the vector of a text and those of labels: (1, D), (N, D) -> (N,)."""

PREFIX = "model."
PARTS = ("text_projector.*", "classes_projector.*", "scorer.*", "logit_scale")
_MLP = 256  # features of the scorer `mlp`
_TINY = np.float32(1e-8)
_POOLINGS: Mapping[str, Callable[[Floats], Floats]] = {  # (T, D) -> (D,)
    "first": lambda states: states[0],
    "last": lambda states: states[-1],
    "avg": lambda states: states.mean(axis=0),
    "max": lambda states: states.max(axis=0),
    "sum": lambda states: states.sum(axis=0),
    "rms": lambda states: np.sqrt(np.square(states).mean(axis=0)),
    "abs_max": lambda states: np.abs(states).max(axis=0),
    "abs_avg": lambda states: np.abs(states).mean(axis=0),
}


def load(model: LoadedModel) -> "LabelOutputs":
    """Load the layers of a model; raises ModelError for missing tensors or wrong shapes."""
    description = model.description
    options = LabelOptions.read(description.encoder)
    shapes = dict(_shapes(description.spec.config.hidden_size, options.scorer))
    arrays = weights.read_others(
        description.encoder, shapes, lambda name: name.removeprefix(PREFIX) in shapes, PREFIX
    )
    return LabelOutputs(model, LabelHead(arrays, options, model.linear), options)


class LabelOutputs:
    """Logits of the labels in each row."""

    def __init__(self, model: LoadedModel, head: "LabelHead", options: LabelOptions) -> None:
        self._model, self._head, self._options = model, head, options

    def __call__(self, batch: Batch, _: Collection[str]) -> list[TextOutputs]:
        """Compute the logits of each row: (N, 1)."""
        num_layers = self._model.description.spec.config.num_layers
        states = batch.split(self._model.encoder.states(batch, num_layers))
        rows = zip(batch.split(batch.ids), states, strict=True)
        return [TextOutputs(multi=self._logits(*row)) for row in rows]

    def _logits(self, ids: npt.NDArray[np.int64], states: Floats) -> Floats:
        labels = label_states(ids, states, self._options)
        if not len(labels):  # the check of the engine at its start sends any text
            return np.zeros((1, 1), dtype=np.float32)
        return self._head(text_states(ids, states, self._options), labels)[:, None]


def label_states(ids: npt.NDArray[np.int64], states: Floats, options: LabelOptions) -> Floats:
    """Return the state of each label of a row: (T,), (T, D) -> (N, D)."""
    (at,) = np.nonzero(ids == options.label_id)
    if not options.average:
        at = at if options.own_token else at + 1
        padded = np.concatenate([states, np.zeros_like(states[:1])])
        return padded[at]
    (texts,) = np.nonzero(ids == options.text_id)
    end = texts[0] if options.text_alone and len(texts) else len(ids)
    starts = at if options.own_token else at + 1
    means = [
        states[start:stop].mean(axis=0) if start < stop else np.zeros_like(states[0])
        for start, stop in zip(starts, np.minimum([*at[1:], end], end), strict=True)
    ]
    return np.array(means, dtype=np.float32).reshape(-1, states.shape[1])


def text_states(ids: npt.NDArray[np.int64], states: Floats, options: LabelOptions) -> Floats:
    """Return the states that are pooled for the text of a row: (T,), (T, D) -> (T, D).

    Without the states of the labels, zeros are added in their place, as the authors' code does.
    """
    if not options.text_alone:
        return states
    start = int(np.argmax(ids == options.text_id))
    return np.concatenate([states[start:], np.zeros_like(states[:start])])


class LabelHead:
    """Projections of a text and of labels, and the score of each label for the text."""

    def __init__(
        self, arrays: Mapping[str, Floats], options: LabelOptions, linear: LinearFactory
    ) -> None:
        network = partial(_network, arrays, linear)
        self._pool, self._normalize = _POOLINGS[options.pooling], options.normalize
        self._text = network("text_projector.linear_{}", (1, 2), options.activation)
        self._labels = network("classes_projector.linear_{}", (1, 2), options.activation)
        self._score = _SCORERS[options.scorer](network)
        self._scale = arrays["logit_scale"]

    def __call__(self, states: Floats, labels: Floats) -> Floats:
        """Return the logit of each label: states of the text (T, D), (N, D) -> (N,)."""
        text, labels = self._text(self._pool(states)[None]), self._labels(labels)
        if not self._normalize:
            return self._score(text, labels)
        return self._score(_unit(text), _unit(labels)) * self._scale


def _network(
    arrays: Mapping[str, Floats],
    linear: LinearFactory,
    name: str,
    parts: Sequence[str | int],
    activation: str = "none",
) -> Network:
    # Linear layers with an activation between them. name: with {} for each of the parts.
    names = [name.format(part) for part in parts]
    activations = [activation] * (len(names) - 1) + ["none"]
    layers = [
        linear(arrays[f"{each}.weight"], arrays[f"{each}.bias"], function, name=each)
        for each, function in zip(names, activations, strict=True)
    ]

    def run(rows: Floats) -> Floats:
        for layer in layers:
            rows = layer(rows)
        return rows

    return run


def _simple(_: Networks) -> Scorer:
    return lambda text, labels: (labels * text).sum(axis=1)


def _mlp(networks: Networks) -> Scorer:
    network = networks("scorer.mlp.{}", (0, 2, 4), "relu")

    def score(text: Floats, labels: Floats) -> Floats:
        repeated = np.broadcast_to(text, labels.shape)
        return network(np.concatenate([repeated, labels], axis=1))[:, 0]

    return score


def _weighted_dot(networks: Networks) -> Scorer:
    of_text, of_labels = (networks("scorer.proj_{}", (part,)) for part in ("text", "label"))
    network = networks("scorer.out_mlp.{}", (0, 3), "relu")

    def score(text: Floats, labels: Floats) -> Floats:
        first, second = np.split(of_text(text), 2, axis=1)
        first_labels, second_labels = np.split(of_labels(labels), 2, axis=1)
        repeated = np.broadcast_to(first, first_labels.shape)
        joined = [repeated, first_labels, second * second_labels]
        return network(np.concatenate(joined, axis=1))[:, 0]

    return score


_SCORERS: Mapping[str, Callable[[Networks], Scorer]] = {
    "simple": _simple,
    "mlp": _mlp,
    "weighted-dot": _weighted_dot,
}


def _unit(rows: Floats) -> Floats:
    unit: Floats = rows / (np.sqrt(np.square(rows).sum(axis=1, keepdims=True)) + _TINY)
    return unit


def _shapes(width: int, scorer: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    sizes = {  # (out, in) of the linear layers
        **{
            f"{part}_projector.linear_{number}": (width, width)
            for part in ("text", "classes")
            for number in (1, 2)
        },
        **_SCORER_SIZES[scorer](width),
    }
    for name, (outputs, inputs) in sizes.items():
        yield f"{name}.weight", (outputs, inputs)
        yield f"{name}.bias", (outputs,)
    yield "logit_scale", ()


_SCORER_SIZES: Mapping[str, Callable[[int], Mapping[str, tuple[int, int]]]] = {
    "simple": lambda width: {},
    "mlp": lambda width: {
        "scorer.mlp.0": (_MLP, 2 * width),
        "scorer.mlp.2": (_MLP // 2, _MLP),
        "scorer.mlp.4": (1, _MLP // 2),
    },
    "weighted-dot": lambda width: {
        "scorer.proj_text": (2 * width, width),
        "scorer.proj_label": (2 * width, width),
        "scorer.out_mlp.0": (4 * width, 3 * width),
        "scorer.out_mlp.3": (1, 4 * width),
    },
}
