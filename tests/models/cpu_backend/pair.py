"""A compiled encoder compared with one of torch with the same weights."""

from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np
import torch
from torch import Tensor

from embedwell_models.checkpoint.weights import Weights
from embedwell_models.config.encoder_config import EncoderConfig
from embedwell_models.config.layer_spec import AttentionSpec
from embedwell_models.cpu_backend.encoder import KernelEncoder
from embedwell_models.cpu_backend.head_padding import pad_heads
from embedwell_models.cpu_backend.input_tables import FactorizedInput, InputTables
from embedwell_models.cpu_backend.layer_weights import LayerWeights
from embedwell_models.cpu_backend.library import SHORT_SUMS
from embedwell_models.cpu_backend.linear import KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.cpu_backend.quantization import Magnitudes, quantize_weight, rotate
from embedwell_models.cpu_backend.relative_positions import position_bias
from embedwell_models.cpu_backend.support import why_unsupported
from embedwell_models.encoder.batch import Batch
from embedwell_models.encoder.pooling import POOLINGS
from embedwell_models.torch_backend.encoder import InputEmbeddings, TorchEncoder
from embedwell_models.torch_backend.layer_builder import TorchLayers
from embedwell_models.torch_backend.linear import Linear, LinearFactory, TorchLinearFactory
from embedwell_models.torch_backend.pooling import pool
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from embedwell_models.vectors import Floats
from tests.models.shapes import GATES, KINDS, NORMED, VOCABULARY, random_weights

CPU = torch.device("cpu")

F32 = torch.float32


def batch(lengths: Sequence[int]) -> Batch:
    noise = torch.Generator().manual_seed(sum(lengths))
    return Batch.of(
        [torch.randint(VOCABULARY, (n,), generator=noise).numpy() for n in lengths],
    )


def error(found: Floats, expected: Floats) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


class Twin:
    """An encoder on torch, which computes the states of a batch once."""

    def __init__(self, config: EncoderConfig, weights: Weights) -> None:
        self.config, self.weights = config, weights
        self.embeddings = InputEmbeddings(config, weights, CPU)
        self._encoder = self.torch(TorchLinearFactory(CPU, F32))
        self._states: dict[tuple[int, bytes, bytes, bytes], Floats] = {}

    @classmethod
    @cache
    def of(cls, kind: str) -> "Twin":
        """The one of KINDS, the same for all kernels."""
        weights = random_weights(KINDS[kind], kind in NORMED, GATES.get(kind, 0))
        return cls(KINDS[kind], weights)

    def torch(self, linear_factory: LinearFactory) -> TorchEncoder:
        layers = TorchLayers(self.config, self.weights, linear_factory, CPU)
        return TorchEncoder(self.embeddings, layers)

    @cached_property
    def sizes(self) -> Magnitudes:
        """The magnitudes of the inputs of each product."""
        linear_factory = Observing()
        self.torch(linear_factory).states(batch([40, 8]), self.config.num_layers)
        return linear_factory.sizes()

    def states(self, texts: Batch, num_layers: int) -> Floats:
        counts = texts.lengths if texts.key_counts is None else texts.key_counts
        key = (num_layers, texts.ids.tobytes(), texts.lengths.tobytes(), counts.tobytes())
        if key not in self._states:
            self._states[key] = self._encoder.states(texts, num_layers)
        return self._states[key]

    def vectors(self, texts: Batch, modes: Sequence[str]) -> Floats:
        states = torch.from_numpy(self.states(texts, self.config.num_layers))
        layout = SequenceLayout(texts.lengths.tolist(), CPU)
        vectors: Floats = pool(states, layout, modes).numpy()
        return vectors


class Pair:
    """The same encoder in two implementations."""

    def __init__(
        self,
        kernels: str,
        dtype: str,
        model: EncoderConfig | Twin,
        weights: Weights | None = None,
        massive: bool = False,
    ) -> None:
        """massive: whether int8 is told of massive activations."""
        if not isinstance(model, Twin):
            model = Twin(model, weights or random_weights(model))
        self.twin, self.config, self.weights = model, model.config, model.weights
        assert not why_unsupported(self.config, self.weights)
        self.sizes = {**self.twin.sizes}
        for layer in self.config.layers:
            if isinstance(layer.mixer, AttentionSpec):
                name = f"layers.{layer.weights}.output"
                self.sizes[name] = pad_heads(self.sizes[name], layer.mixer)
        for name in [name for name in self.sizes if massive and name.endswith(".down")][:1]:
            self.sizes[name] = with_large(self.sizes[name])
        self.layers = LayerWeights(self.config, self.weights, kernels, Packing(dtype, self.sizes))
        self.inputs = InputTables.of(self.config, self.weights)
        self.bias = position_bias(self.config, self.weights)
        exact = KernelLinearFactory(kernels, Packing("float32"))
        self.factorized = FactorizedInput.of(self.inputs, self.weights, exact)
        self.ours = KernelEncoder(self.inputs, self.layers, self.bias, self.factorized)

    @classmethod
    def of(cls, kernels: str, dtype: str, kind: str, massive: bool = False) -> "Pair":
        """Build the pair of one of KINDS, whose weights other tests use too."""
        return cls(kernels, dtype, Twin.of(kind), massive=massive)

    def check(self, lengths: Sequence[int], close: float) -> None:
        both, texts = (self.ours, self.twin), batch(lengths)
        for num_layers in range(self.config.num_layers + 1):
            actual, expected = (encoder.states(texts, num_layers) for encoder in both)
            assert error(actual, expected) < close
        actual, expected = (encoder.vectors(texts, list(POOLINGS)) for encoder in both)
        assert error(actual, expected) < close


class Observing(LinearFactory):
    """Layers of torch that remember their inputs."""

    dtype = F32

    def __init__(self) -> None:
        self.inputs: dict[str, list[Tensor]] = {}

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        self.inputs[name] = [weight.new_zeros(0, weight.shape[1])]  # no text may reach an expert
        linear = TorchLinearFactory(CPU, F32)(weight, bias, activation)
        return ObservedLinear(linear, self.inputs[name])

    def sizes(self) -> Magnitudes:
        """The fourth root of the mean fourth power of each input."""
        return {name: size(torch.cat(inputs)) for name, inputs in self.inputs.items()}


def with_large(sizes: Floats) -> Floats:
    """Make one size massive."""
    large = sizes.copy()
    large[3] = 60 * np.median(sizes[sizes > 0])
    return large


def size(x: Tensor) -> Floats:
    powers, missing = x.double().pow(4), max(16 - len(x), 0)  # rows that are as the mean
    total = powers.sum(dim=0) + missing * (powers.mean() if len(x) else 0)
    magnitudes: Floats = (total / (len(x) + missing)).pow(0.25).float().numpy()
    return magnitudes


class ObservedLinear:
    def __init__(self, linear: Linear, inputs: list[Tensor]) -> None:
        self.linear, self.inputs = linear, inputs

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        self.inputs.append(x)
        return self.linear(x, residual)


class Rounded(LinearFactory):
    """A layout that rounds as int8 does in some kernels, and computes in float32."""

    dtype = F32

    def __init__(self, kernels: str, sizes: Magnitudes) -> None:
        self.short_sums, self.sizes = kernels in SHORT_SUMS, sizes

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> "RoundedLinear":
        quantized = quantize_weight(weight.numpy(), self.sizes[name], name, self.short_sums)
        rows = torch.from_numpy(quantized.weight * quantized.scales[:, None])
        linear = TorchLinearFactory(CPU, F32)(rows, bias, activation)
        return RoundedLinear(linear, torch.from_numpy(quantized.smoothing))


class RoundedLinear:
    def __init__(self, linear: object, smoothing: Tensor) -> None:
        self.linear, self.smoothing = linear, smoothing

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        smooth = torch.from_numpy(rotate((x * self.smoothing).numpy()))
        least, most = smooth.amin(1, keepdim=True).clamp(max=0), smooth.amax(1, keepdim=True)
        scale = (most.clamp(min=0) - least) / 255
        zero = (-least / scale).round()
        rounded = (smooth / scale + zero).round().clamp(0, 255) - zero
        assert callable(self.linear)
        y: Tensor = self.linear(rounded * scale, residual)
        return y
