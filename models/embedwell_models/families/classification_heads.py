"""Classification heads of families, as data: the layers between a vector and its logits.

These are the heads of transformers' ...ForSequenceClassification classes, which rerank or classify.
"""

from collections.abc import Callable
from dataclasses import dataclass

from embedwell_models.config.json_config import JsonConfig

ACTIVATIONS = {
    "gelu": "GELU",
    "gelu_new": "GELUTanh",
    "relu": "ReLU",
    "silu": "SiLU",
    "tanh": "Tanh",
}
"""Activations in config.json -> classes of torch.nn; GELUTanh is GELU in its tanh form."""


@dataclass(frozen=True)
class LinearLayer:
    """A linear layer. name: its name in the checkpoint. activation: a class of torch.nn."""

    name: str
    activation: str = "Identity"
    bias: bool = True


@dataclass(frozen=True)
class NormLayer:
    """A layer norm. name: its name in the checkpoint."""

    name: str
    bias: bool
    eps: float


@dataclass(frozen=True)
class ClassificationLayers:
    """Pooling of the states, and the layers after it. output: computes the logits.

    divisor: divides the logits. softcap: the logits become softcap * tanh(logits / softcap), unless
    it is 0. of_tokens: layers that are applied to the state of each token,
    before the pooling. pad_id: id that is not the last token of a text; None if every id may be it.
    """

    pooling: str
    hidden: tuple[LinearLayer | NormLayer, ...]
    output: LinearLayer
    of_tokens: tuple[LinearLayer, ...] = ()
    divisor: float = 1.0
    softcap: float = 0.0
    pad_id: int | None = None


def two_layers(
    first: str, last: str, activation: str | None = "Tanh", option: str = "hidden_act"
) -> Callable[[JsonConfig], ClassificationLayers]:
    """Return the reader of a head with two linear layers on the first token's state.

    first, last: names of the layers. activation: activation of the first layer; None to read
    `option`.
    """

    def read(options: JsonConfig) -> ClassificationLayers:
        chosen = activation or options.choice(option, ACTIVATIONS, "gelu")
        return ClassificationLayers("cls", (LinearLayer(first, chosen),), LinearLayer(last))

    return read


def decoder(options: JsonConfig) -> ClassificationLayers:
    """Return the head of a decoder: one matrix on the state of the last token but padding.

    Many tokenizers end a text with the token that pads it, which transformers then leaves out.
    """
    pad_id = options.get("pad_token_id")
    return ClassificationLayers("lasttoken", (), LinearLayer("score", bias=False), pad_id=pad_id)


def refuse_segments(options: JsonConfig) -> None:
    """Raise ModelError if the tokenizer of a model returns segments, for a family without them.

    They would change the scores of a pair.
    """
    tokenizer = JsonConfig.optional(options.path.parent / "tokenizer_config.json")
    names = tokenizer.get("model_input_names", [])
    if "token_type_ids" in names:
        raise tokenizer.unsupported("model_input_names", names, "names without token_type_ids")
