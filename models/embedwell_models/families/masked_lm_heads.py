"""Heads of masked language models, from a token's state to the logits of a vocabulary.

These are the heads of transformers' ...ForMaskedLM classes: a linear layer, an activation, a layer
norm, and a product with the output matrix, which usually is the table of token vectors.
"""

from collections.abc import Callable
from dataclasses import dataclass

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig


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
BERT = masked_lm_head(
    f"{PREDICTIONS}.transform.dense",
    f"{PREDICTIONS}.transform.LayerNorm",
    f"{PREDICTIONS}.decoder",
    f"{PREDICTIONS}.bias",
)
ROBERTA = masked_lm_head(
    "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias", "gelu"
)
