"""Modules after the pooling, each a function of a vector: their shapes and options, no weights."""

from dataclasses import dataclass

RESIDUAL = "residual.weight"
"""The name of a Dense's second matrix."""

Shapes = dict[str, tuple[int, ...]]
"""Names and shapes of tensors."""


@dataclass(frozen=True, kw_only=True)
class Dense:
    """A linear layer with an activation, one of ACTIVATIONS. tensor: the name of its weight.

    residual: whether its input is added, through another matrix if the widths differ.
    """

    path: str
    inputs: int
    outputs: int
    bias: bool
    activation: str
    tensor: str = "linear.weight"
    residual: bool = False

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
        """Whether its weights have a file of their own, at `path`; an encoder is at the path ""."""
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
        """The dimensions of its result: as many as its input has."""
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
    """The score of a language model: the logit of a next token, or the difference of two.

    tensors: names of its output table (vocabulary, inputs); the first that the checkpoint has
    counts. true_id, false_id: rows of the table; without a second, the score is the logit alone.
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
        """No tensors besides those of the language model."""
        return {}

    @property
    def has_own_file(self) -> bool:
        """False: its table is the encoder's."""
        return False


@dataclass(frozen=True)
class Normalize:
    """Division by the Euclidean length."""


@dataclass(frozen=True)
class TanhInt8:
    """Rounding of 127 tanh(x) in each dimension, which Perplexity's models end with."""


WithoutWeights = Normalize | TanhInt8
Module = Dense | LayerNorm | LogitScore | WithoutWeights
"""A module after the pooling."""

ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")
"""Supported activations of a Dense: classes of torch.nn."""


def _bias_of(weight: str) -> str:
    return weight.removesuffix("weight") + "bias"
