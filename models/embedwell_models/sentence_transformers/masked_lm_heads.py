"""Heads of masked language models, from a token's state to the logits of a vocabulary.

These are the heads of transformers' ...ForMaskedLM classes: a linear layer, an activation, a layer
norm, and a product with the output matrix, which usually is the table of token vectors.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from embedwell_models.config.activations import ACTIVATIONS
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError


@dataclass(frozen=True, kw_only=True)
class MaskedLMHead:
    """Names of the head's layers in the checkpoint, and their options.

    dense, norm: the first two layers. output: the output matrix. output_bias: the name of its bias
    if it is not the usual name. activation: one of the values of ACTIVATIONS. dense_has_bias,
    norm_has_bias: whether these layers have a bias.
    """

    dense: str
    norm: str
    output: str
    output_bias: str = ""
    activation: str = "gelu"
    eps: float = 1e-12
    dense_has_bias: bool = True
    norm_has_bias: bool = True

    @property
    def required_tensors(self) -> set[str]:
        """Names of the tensors that the checkpoint must have."""
        biased = [(self.dense, self.dense_has_bias), (self.norm, self.norm_has_bias)]
        biases = {f"{name}.bias" for name, has_bias in biased if has_bias}
        return {f"{self.dense}.weight", f"{self.norm}.weight"} | biases


@dataclass(frozen=True)
class _Names:
    # activation, eps: names of options in config.json. Without an option, the activation is gelu.
    dense: str
    norm: str
    output: str
    output_bias: str = ""
    activation: str | None = "hidden_act"
    eps: str = "layer_norm_eps"


_PREDICTIONS = "cls.predictions"
_BERT = _Names(
    f"{_PREDICTIONS}.transform.dense",
    f"{_PREDICTIONS}.transform.LayerNorm",
    f"{_PREDICTIONS}.decoder",
    f"{_PREDICTIONS}.bias",
)
_ROBERTA = _Names(
    "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias", activation=None
)
_GTE = _Names("lm_head.dense", "lm_head.norm", "lm_head.decoder")
_HEADS: Mapping[str, _Names] = {  # by family of the encoder
    "albert": _Names(
        *("predictions.dense", "predictions.LayerNorm", "predictions.decoder", "predictions.bias")
    ),
    "bert": _BERT,
    "camembert": _ROBERTA,
    "deberta-v2": _BERT,
    "distilbert": _Names(
        *("vocab_transform", "vocab_layer_norm", "vocab_projector"), activation="activation", eps=""
    ),
    "electra": _Names(
        *("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head"),
        activation=None,
    ),
    "ernie": _BERT,
    "gte": _GTE,
    "modernbert": _Names(
        *("head.dense", "head.norm", "decoder"),
        activation="classifier_activation",
        eps="norm_eps",
    ),
    "mpnet": _ROBERTA,
    "new": _GTE,
    "nomic_bert": _Names(
        f"{_PREDICTIONS}.transform.dense",
        f"{_PREDICTIONS}.transform.layer_norm",
        f"{_PREDICTIONS}.decoder",
        f"{_PREDICTIONS}.bias",
    ),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
}


def masked_lm_head(options: JsonConfig, config: EncoderConfig) -> MaskedLMHead:
    """Describe the head of a model; raises ModelError for a family without a known head."""
    names = _HEADS.get(config.family)
    if names is None:
        raise ModelError(
            f"{options.path}: sparse vectors of {config.family} are not supported; supported: "
            f"{', '.join(sorted(_HEADS))}"
        )
    if config.family == "deberta-v2":
        options.require("legacy", True)
    modernbert = config.family == "modernbert"
    return MaskedLMHead(
        dense=names.dense,
        norm=names.norm,
        output=names.output,
        output_bias=names.output_bias or f"{names.output}.bias",
        activation=(
            options.choice(names.activation, ACTIVATIONS, "gelu") if names.activation else "gelu"
        ),
        eps=options.get(names.eps, config.norm_eps) if names.eps else 1e-12,
        dense_has_bias=not modernbert or options.get("classifier_bias", False),
        norm_has_bias=not modernbert or options.get("norm_bias", False),
    )
