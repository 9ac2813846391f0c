"""The layers of Laya that score the options of a question, from the states of its encoder.

T tokens, D hidden size, H heads.
"""

from collections.abc import Collection, Iterator, Mapping

import numpy as np

from embedwell_decide.laya_rows import LayaRows
from embedwell_decide.options import DecisionOptions
from embedwell_decide.questions import KINDS
from embedwell_models.checkpoint import weights
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.encoder import LinearFactory, WeightAndBias, layer_norm
from embedwell_models.errors import ModelError
from embedwell_models.loading.loaded_model import LoadedModel
from embedwell_models.outputs.text_outputs import TextOutputs
from embedwell_models.tokenizer.steps import run_to_completion
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.vectors import MAX_UNTHREADED_PRODUCT, Floats

_HEAD_SIZE = 64
_EPS = 1e-5
_PARTS = ("head.", "type_emb.", "scorer.")
_ALL = slice(None)


def load(model: LoadedModel) -> "DecisionOutputs":
    """Load the layers of a model; raises ModelError for missing tensors or wrong shapes."""
    description = model.description
    options = DecisionOptions.read(description.encoder)
    width = description.spec.config.hidden_size
    arrays = weights.read_others(
        description.encoder,
        dict(shapes(width, options.layers)),
        lambda name: name.startswith(_PARTS),
    )
    head = DecisionHead(arrays, options.layers, model.fast_linear, model.linear)
    return DecisionOutputs(model, head, arrays["type_emb.weight"], options)


class DecisionOutputs:
    """Logits of the options of each question: of the markers before the options in its row."""

    def __init__(
        self, model: LoadedModel, head: "DecisionHead", kinds: Floats, options: DecisionOptions
    ) -> None:
        """kinds: the vector of each kind of question, (kinds, D)."""
        self._model, self._head = model, head
        tokenizer = model.tokenizer
        self._mask = LayaRows.of(options, tokenizer.special_id, tokenizer.name).mask
        # The kind is the first word of a row, after its first special token.
        first_ids = first_ids_of_kinds(tokenizer)
        self._kinds = dict(zip(first_ids, kinds, strict=True))

    def __call__(self, batch: Batch, _: Collection[str]) -> list[TextOutputs]:
        """Compute the logits of each row: (options, 1)."""
        num_layers = self._model.description.spec.config.num_layers
        states = batch.split(self._model.encoder.states(batch, num_layers))
        rows = zip(batch.split(batch.ids), states, strict=True)
        return [TextOutputs(multi=self._logits(*row)) for row in rows]

    def _logits(self, ids: np.ndarray, states: Floats) -> Floats:
        kind = self._kinds.get(int(ids[1])) if len(ids) > 1 else None
        if kind is None:  # the check of the engine at its start sends any text
            kind = np.zeros(states.shape[1], dtype=np.float32)
        return self._head(states + kind, ids == self._mask)


class DecisionHead:
    """Layers of attention without positions, and the score of the marked states."""

    def __init__(
        self,
        arrays: Mapping[str, Floats],
        layers: int,
        layer_linear: LinearFactory,
        linear: LinearFactory,
    ) -> None:
        """layer_linear, linear: build the linear layers of the layers, and of the score."""
        self._layers = [_Layer(arrays, f"head.layers.{i}", layer_linear) for i in range(layers)]
        self._norm = _pair(arrays, "scorer.0")
        self._dense = linear(*_pair(arrays, "scorer.1"), "gelu", name="scorer.1")
        self._output = linear(*_pair(arrays, "scorer.3"), name="scorer.3")

    def __call__(self, states: Floats, marked: np.ndarray) -> Floats:
        """Return the score of each marked state of a row: (T, D), (T,) -> (marked, 1)."""
        if not marked.any():
            return np.zeros((1, 1), dtype=np.float32)
        for layer in self._layers[:-1]:
            states = layer(states)
        states = self._layers[-1](states, marked)
        return self._output(self._dense(layer_norm(states, *self._norm, _EPS)))


class _Layer:
    """Layer whose norms come before the attention and before the feed-forward network."""

    def __init__(self, arrays: Mapping[str, Floats], name: str, linear: LinearFactory) -> None:
        attention = f"{name}.self_attn"
        weight, bias = arrays[f"{attention}.in_proj_weight"], arrays[f"{attention}.in_proj_bias"]
        width = weight.shape[1]
        self._heads = max(1, width // _HEAD_SIZE)
        self._query = linear(weight[:width], bias[:width], name=f"{attention}.query")
        self._keys_values = linear(weight[width:], bias[width:], name=f"{attention}.key_value")
        self._output = linear(*_pair(arrays, f"{attention}.out_proj"), name=f"{attention}.out_proj")
        self._up = linear(*_pair(arrays, f"{name}.linear1"), "relu", name=f"{name}.linear1")
        self._down = linear(*_pair(arrays, f"{name}.linear2"), name=f"{name}.linear2")
        self._attention_norm = _pair(arrays, f"{name}.norm1")
        self._ffn_norm = _pair(arrays, f"{name}.norm2")

    def __call__(self, states: Floats, marked: np.ndarray | slice = _ALL) -> Floats:
        """Compute the marked states of one row, (marked, D), from all of its states, (T, D)."""
        normed = layer_norm(states, *self._attention_norm, _EPS)
        mixed = self._attend(self._query(normed[marked]), self._keys_values(normed))
        states = self._output(mixed, states[marked])
        return self._down(self._up(layer_norm(states, *self._ffn_norm, _EPS)), states)

    def _attend(self, queries: Floats, keys_values: Floats) -> Floats:
        # (Q, D), (T, 2 D) -> (Q, D). In blocks of queries, see MAX_UNTHREADED_PRODUCT.
        key, value = self._by_head(keys_values, 2)  # (H, T, Dh) each
        (query,) = self._by_head(queries, 1)
        query = query * np.float32(query.shape[-1] ** -0.5)
        size = max(1, MAX_UNTHREADED_PRODUCT // key[0].size)
        blocks = [query[:, start : start + size] for start in range(0, len(queries), size)]
        mixed = [_softmax(block @ key.transpose(0, 2, 1)) @ value for block in blocks]
        return np.concatenate(mixed, axis=1).transpose(1, 0, 2).reshape(queries.shape)

    def _by_head(self, rows: Floats, parts: int) -> Floats:
        # (T, parts * D) -> (parts, H, T, Dh)
        return rows.reshape(len(rows), parts, self._heads, -1).transpose(1, 2, 0, 3)


def _softmax(scores: Floats) -> Floats:
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def first_ids_of_kinds(tokenizer: Tokenizer) -> list[int]:
    """Return the id of the first token of each kind of question; raises ModelError if two agree."""
    first = [run_to_completion(tokenizer.ids_without_special(kind))[0] for kind in KINDS]
    if len({*first}) < len(KINDS):
        raise ModelError("the tokenizer of a decision model does not tell its questions apart")
    return first


def shapes(width: int, layers: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the name and the shape of each tensor of the layers after an encoder."""
    yield "type_emb.weight", (len(KINDS), width)
    for index in range(layers):
        name = f"head.layers.{index}"
        yield f"{name}.self_attn.in_proj_weight", (3 * width, width)
        yield f"{name}.self_attn.in_proj_bias", (3 * width,)
        yield from _linear(f"{name}.self_attn.out_proj", width, width)
        yield from _linear(f"{name}.linear1", 4 * width, width)
        yield from _linear(f"{name}.linear2", width, 4 * width)
        yield from _norm(f"{name}.norm1", width)
        yield from _norm(f"{name}.norm2", width)
    yield from _norm("scorer.0", width)
    yield from _linear("scorer.1", width, width)
    yield from _linear("scorer.3", 1, width)


def _linear(name: str, outputs: int, inputs: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def _norm(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def _pair(arrays: Mapping[str, Floats], name: str) -> WeightAndBias:
    return arrays[f"{name}.weight"], arrays[f"{name}.bias"]
