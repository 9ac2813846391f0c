"""Classification heads as modules, built from the data of their families."""

from dataclasses import dataclass, replace

from embedwell_models import families
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.json_config import JsonConfig
from embedwell_models.errors import ModelError
from embedwell_models.families.classification_heads import LinearLayer, NormLayer
from embedwell_models.model_files.vector_modules import Dense, LayerNorm, LogitScore


@dataclass(frozen=True)
class ClassificationHead:
    """Pooling of a classifier and the modules after it; the last module computes the logits.

    pooling: pooling mode of the states. modules: modules after the pooling, in order.
    of_tokens: modules before the pooling, which are applied to the state of each token. pad_id: see
    VectorRecipe.
    """

    pooling: str
    modules: tuple[Dense | LayerNorm | LogitScore, ...]
    of_tokens: tuple[Dense | LayerNorm, ...] = ()
    pad_id: int | None = None

    @property
    def tensor_names(self) -> list[str]:
        """Names of the head's tensors in the checkpoint."""
        return [name for module in (*self.of_tokens, *self.modules) for name in module.shapes]


def classification_head(
    options: JsonConfig, config: EncoderConfig, path: str, num_labels: int
) -> ClassificationHead:
    """Build the head of a model. path: the encoder's folder, relative to the model's folder.

    Raises ModelError for a family whose head is not supported.
    """
    read = families.named(config.family).classification_head
    if read is None:
        supported = families.names(lambda family: family.classification_head is not None)
        raise ModelError(
            f"{options.path}: the classification head of {config.family} is not supported; "
            f"supported: {', '.join(supported)}"
        )
    layers, width = read(options), config.hidden_size
    of_tokens, hidden = (
        tuple(_module(layer, path, width) for layer in part)
        for part in (layers.of_tokens, layers.hidden)
    )
    output = replace(_dense(layers.output, path, width, num_labels), divisor=layers.divisor)
    if cap := layers.softcap:
        output = replace(output, activation="Tanh", divisor=cap, factor=cap)
    # In other models, the tokens before it attend to it.
    pad_id = layers.pad_id if config.causal else None
    return ClassificationHead(layers.pooling, (*hidden, output), of_tokens, pad_id)


def _module(layer: LinearLayer | NormLayer, path: str, width: int) -> Dense | LayerNorm:
    tensor = f"{layer.name}.weight"
    if isinstance(layer, NormLayer):
        return LayerNorm(path=path, inputs=width, bias=layer.bias, eps=layer.eps, tensor=tensor)
    return _dense(layer, path, width, width)


def _dense(layer: LinearLayer, path: str, inputs: int, outputs: int) -> Dense:
    return Dense(
        path=path,
        inputs=inputs,
        outputs=outputs,
        bias=layer.bias,
        activation=layer.activation,
        tensor=f"{layer.name}.weight",
    )
