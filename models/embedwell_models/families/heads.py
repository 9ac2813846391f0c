"""Heads of families, as data: the layers between a state or vector and its logits.

Those of classifiers are the heads of transformers' ...ForSequenceClassification classes, which
rerank or classify. Those of masked language models (...ForMaskedLM) are a linear layer, an
activation, a layer norm, and a product with the output matrix, which usually is the table of token
vectors.
"""

from collections.abc import Callable
from dataclasses import dataclass

from embedwell_models.config.encoder_config import EncoderConfig
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


@dataclass(frozen=True, kw_only=True)
class MaskedLMHead:
    """Names of the head's layers in the checkpoint, and their options.

    dense, norm: the first two layers; both "" for a head of the output alone. output: the output
    matrix. output_bias: the name of its bias if it is not the usual name. activation: one of the
    values of ACTIVATIONS. dense_has_bias, norm_has_bias: whether these layers have a bias.
    """

    output: str
    dense: str = ""
    norm: str = ""
    output_bias: str = ""
    activation: str = "gelu"
    eps: float = 1e-12
    dense_has_bias: bool = True
    norm_has_bias: bool = True

    @property
    def required_tensors(self) -> set[str]:
        """Names of the tensors that the checkpoint must have."""
        if not self.dense:
            return set()
        biased = [(self.dense, self.dense_has_bias), (self.norm, self.norm_has_bias)]
        biases = {f"{name}.bias" for name, has_bias in biased if has_bias}
        return {f"{self.dense}.weight", f"{self.norm}.weight"} | biases


MaskedLMReader = Callable[[JsonConfig, EncoderConfig], MaskedLMHead]
"""Function that builds the head of a model."""


def masked_lm_head(
    dense: str, norm: str, output: str, output_bias: str = "", activation: str | None = None
) -> MaskedLMReader:
    """Return the reader of a head whose layers have these names, with all biases.

    activation: the activation of the head; None for that of the encoder's layers.
    """

    def read(options: JsonConfig, config: EncoderConfig) -> MaskedLMHead:
        return MaskedLMHead(
            dense=dense,
            norm=norm,
            output=output,
            output_bias=output_bias or f"{output}.bias",
            activation=activation or config.feed_forward.activation,
            eps=config.norm_eps,
        )

    return read


PREDICTIONS = "cls.predictions"
BERT_MASKED_LM = masked_lm_head(
    f"{PREDICTIONS}.transform.dense",
    f"{PREDICTIONS}.transform.LayerNorm",
    f"{PREDICTIONS}.decoder",
    f"{PREDICTIONS}.bias",
)
ROBERTA_MASKED_LM = masked_lm_head(
    "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias", "gelu"
)
