"""Shapes and options of the modules after the pooling, without weights."""

from dataclasses import dataclass

from embedwell_models.config.model_spec import Projection

RESIDUAL = "residual.weight"
"""Name of the second matrix of a Dense."""

Shapes = dict[str, tuple[int, ...]]
"""Names and shapes of tensors."""


@dataclass(frozen=True, kw_only=True)
class Dense:
    """A linear layer with one of ACTIVATIONS. tensor: the name of its weight.

    residual: whether the input is added to the result, through another matrix if the widths differ.
    divisor: divides weight and bias. factor: of the activation's result, without a residual.
    """

    path: str
    inputs: int
    outputs: int
    bias: bool
    activation: str
    tensor: str = "linear.weight"
    residual: bool = False
    divisor: float = 1.0
    factor: float = 1.0

    @property
    def shapes(self) -> Shapes:
        """The names and shapes of its tensors, the weight first."""
        shapes: Shapes = {self.tensor: (self.outputs, self.inputs)}
        if self.bias:
            shapes[_bias_of(self.tensor)] = (self.outputs,)
        if self.residual and self.inputs != self.outputs:
            shapes[RESIDUAL] = (self.outputs, self.inputs)
        return shapes

    @property
    def has_own_file(self) -> bool:
        """Whether its weights have a file of their own, at `path`; "" is the encoder's path."""
        return self.tensor == "linear.weight" and bool(self.path)


@dataclass(frozen=True, kw_only=True)
class LayerNorm:
    """Layer normalisation of a vector. tensor: the name of its weight."""

    path: str
    inputs: int
    bias: bool = True
    eps: float = 1e-5
    tensor: str = "norm.weight"

    @property
    def outputs(self) -> int:
        """Dimensions of its result, which equal those of its input."""
        return self.inputs

    @property
    def shapes(self) -> Shapes:
        """The names and shapes of its tensors, the weight first."""
        weight: Shapes = {self.tensor: (self.inputs,)}
        return {**weight, _bias_of(self.tensor): (self.inputs,)} if self.bias else weight

    @property
    def has_own_file(self) -> bool:
        """Whether its weights have a file of their own, at `path`."""
        return self.tensor == "norm.weight"


@dataclass(frozen=True, kw_only=True)
class LogitScore:
    """Score of a language model: the logit of a next token, or the difference of two logits.

    tensors: names of the output table (vocabulary, inputs), of which the first in the checkpoint is
    read. true_id, false_id: rows of the table; if false_id is None, the score is a single logit.
    """

    path: str
    inputs: int
    vocabulary: int
    tensors: tuple[str, ...]
    true_id: int
    false_id: int | None = None
    outputs: int = 1

    @property
    def shapes(self) -> Shapes:
        """Empty: there are no tensors besides the language model's."""
        return {}

    @property
    def has_own_file(self) -> bool:
        """False: the table belongs to the encoder."""
        return False


@dataclass(frozen=True)
class Normalize:
    """Division by the Euclidean length."""


@dataclass(frozen=True)
class TanhInt8:
    """Rounding of 127 tanh(x) in each dimension, the last module of Perplexity's models."""


@dataclass(frozen=True)
class Truncate:
    """The first dimensions of a vector, without the others. outputs: how many."""

    outputs: int


WithoutWeights = Normalize | TanhInt8 | Truncate
Module = Dense | LayerNorm | LogitScore | WithoutWeights
"""A module after the pooling."""

ACTIVATIONS = (
    *("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid"),
    *("LeakyReLU", "ELU", "Softplus", "Mish", "Hardtanh"),
)
"""Supported activations of a Dense: classes of torch.nn."""


def projection_module(path: str, hidden_size: int, projection: Projection) -> Dense:
    """Return a projection in the encoder's file as a module.

    path: the encoder's folder, relative to the model's.
    """
    return Dense(
        path=path,
        inputs=hidden_size,
        outputs=projection.width,
        bias=projection.bias,
        activation="Identity",
        tensor=projection.tensor,
    )


def projection_modules(path: str, hidden_size: int, projection: Projection | None) -> list[Module]:
    """Return a projection, and what follows it, as modules; empty without a projection.

    For the other arguments see projection_module.
    """
    if projection is None:
        return []
    dense, outputs = projection_module(path, hidden_size, projection), projection.outputs
    return [dense] if outputs is None else [dense, Truncate(outputs)]


def _bias_of(weight: str) -> str:
    return weight.removesuffix("weight") + "bias"
