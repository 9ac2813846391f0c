"""Classification heads: the modules between the states of a sequence and its logits.

These are the heads of transformers' ...ForSequenceClassification classes, which rerank or classify.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.sentence_transformers.vector_modules import Dense, LayerNorm, LogitScore

_ACTIVATIONS = {"gelu": "GELU", "relu": "ReLU", "silu": "SiLU", "tanh": "Tanh"}
"""Activations in config.json -> classes of torch.nn."""


@dataclass(frozen=True)
class ClassificationHead:
    """Pooling of a classifier and the modules after it; the last module computes the logits.

    pooling: pooling mode of the states. modules: modules after the pooling, in order.
    """

    pooling: str
    modules: tuple[Dense | LayerNorm | LogitScore, ...]

    @property
    def tensor_names(self) -> list[str]:
        """Names of the head's tensors in the checkpoint."""
        return [name for module in self.modules for name in module.shapes]


Builder = Callable[[JsonConfig, EncoderConfig, str, int], ClassificationHead]
"""Function that builds a head from the arguments of `classification_head`."""


def classification_head(
    options: JsonConfig, config: EncoderConfig, path: str, num_labels: int
) -> ClassificationHead:
    """Build the head of a model. path: the encoder's folder, relative to the model's folder.

    Raises ModelError for a family whose head is not supported.
    """
    build = _HEADS.get(config.family)
    if build is None:
        raise ModelError(
            f"{options.path}: the classification head of {config.family} is not supported; "
            f"supported: {', '.join(sorted(_HEADS))}"
        )
    return build(options, config, path, num_labels)


def _two_layers(
    first: str, last: str, activation: str | None = "Tanh", option: str = "hidden_act"
) -> Builder:
    """Return the builder of a head with two linear layers on the first token's state.

    first, last: names of the layers. activation: activation of the first layer; None to read
    `option`.
    """

    def build(
        options: JsonConfig, config: EncoderConfig, path: str, num_labels: int
    ) -> ClassificationHead:
        width, chosen = config.hidden_size, activation
        if chosen is None:
            chosen = options.choice(option, _ACTIVATIONS, "gelu")
        hidden = _dense(path, first, width, width, chosen)
        return ClassificationHead("cls", (hidden, _dense(path, last, width, num_labels)))

    return build


def _modernbert(
    options: JsonConfig, config: EncoderConfig, path: str, num_labels: int
) -> ClassificationHead:
    pooling = options.choice("classifier_pooling", {"cls": "cls", "mean": "mean"}, "cls")
    activation = options.choice("classifier_activation", _ACTIVATIONS, "gelu")
    width, bias = config.hidden_size, options.get("classifier_bias", False)
    modules = (
        _dense(path, "head.dense", width, width, activation, bias),
        LayerNorm(
            path=path,
            inputs=width,
            bias=options.get("norm_bias", False),
            eps=options.get("norm_eps", 1e-5),
            tensor="head.norm.weight",
        ),
        _dense(path, "classifier", width, num_labels),
    )
    return ClassificationHead(pooling, modules)


def _decoder(
    options: JsonConfig, config: EncoderConfig, path: str, num_labels: int
) -> ClassificationHead:
    score = _dense(path, "score", config.hidden_size, num_labels, bias=False)
    return ClassificationHead("lasttoken", (score,))


def _dense(  # noqa: PLR0913, PLR0917 - called once
    path: str,
    name: str,
    inputs: int,
    outputs: int,
    activation: str = "Identity",
    bias: bool = True,
) -> Dense:
    return Dense(
        path=path,
        inputs=inputs,
        outputs=outputs,
        bias=bias,
        activation=activation,
        tensor=f"{name}.weight",
    )


_ROBERTA = _two_layers("classifier.dense", "classifier.out_proj")
_HEADS: Mapping[str, Builder] = {  # by family of the encoder
    "albert": _two_layers("albert.pooler", "classifier"),
    "bert": _two_layers("bert.pooler.dense", "classifier"),
    "camembert": _ROBERTA,
    "deberta-v2": _two_layers("pooler.dense", "classifier", None, "pooler_hidden_act"),
    "distilbert": _two_layers("pre_classifier", "classifier", "ReLU"),
    "electra": _two_layers("classifier.dense", "classifier.out_proj", "GELU"),
    "ernie": _two_layers("ernie.pooler.dense", "classifier"),
    "gemma": _decoder,
    "gemma2": _decoder,
    "gemma3_text": _decoder,
    "gte": _two_layers("gte.pooler.dense", "classifier"),
    "jina_embeddings_v3": _ROBERTA,
    "llama": _decoder,
    "mistral": _decoder,
    "modernbert": _modernbert,
    "mpnet": _ROBERTA,
    "new": _two_layers("new.pooler.dense", "classifier"),
    "nomic_bert": _two_layers("nomic_bert.pooler.dense", "classifier"),
    "qwen2": _decoder,
    "qwen3": _decoder,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
}
