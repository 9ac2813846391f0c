"""The compiled layers against their twin on torch, for every instruction set of this processor."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from models import native
from models.config import EncoderConfig
from models.layers import MATRICES, TorchLayers
from models.linear import ACTIVATIONS, Observed, Plain
from models.native import ISAS, NativeLayers, Packed, fits, isa
from models.packing import Packing
from models.positions import Positions
from models.quantization import quantize
from models.weights import Weights

CPU = torch.device("cpu")
F32 = torch.float32
CLOSE = {"float32": 2e-6, "bfloat16": 0.015, "int8": 0.05}  # of the length of what is expected
# Without a compiler at installation there are no libraries, and torch's layers are used: then
# there is nothing here to compare.
BUILT = [
    pytest.param(name, dtype, id=f"{name}-{dtype}")
    for name, needed in ISAS.items()
    for dtype in native.DTYPES
    if needed <= native.features() and native.computes(name, dtype)
]
kernels = pytest.mark.parametrize(("kernels", "dtype"), BUILT)


class Slanted(Positions):
    """A bias that differs by head, by distance and by direction."""

    def __init__(self, heads: int, causal: bool = False) -> None:
        self.heads, self.causal = heads, causal

    def bias(self, reach: int) -> Tensor:
        distance = torch.arange(1 - reach, reach, dtype=F32)
        slopes = torch.linspace(-0.4, 0.7, self.heads)[:, None]
        return slopes * (distance.abs() + 0.3 * distance)


class Turned(Positions):
    def rotate(self, qkv: Tensor, positions: Tensor) -> Tensor:
        return -qkv


def shape(
    hidden: int = 64, heads: int = 2, inner: int = 128, activation: str = "gelu", layers: int = 2
) -> EncoderConfig:
    return EncoderConfig(
        family="bert",
        vocab_size=10,
        hidden_size=hidden,
        num_layers=layers,
        num_heads=heads,
        intermediate_size=inner,
        max_positions=512,
        activation=activation,
        norm_eps=0.05,
    )


def random_weights(config: EncoderConfig) -> Weights:
    """So large that a wrong activation, bias or norm shows."""
    noise = torch.Generator().manual_seed(5)
    width, inner = config.hidden_size, config.intermediate_size
    sizes = {"up": (inner, width), "down": (width, inner)}
    weights = {}
    for layer in (f"layers.{i}" for i in range(config.num_layers)):
        for name in (name for parts in MATRICES.values() for name in parts):
            rows, columns = sizes.get(name, (width, width))
            weights[f"{layer}.{name}.weight"] = torch.randn(rows, columns, generator=noise) * 0.1
            weights[f"{layer}.{name}.bias"] = torch.randn(rows, generator=noise) * 0.3
        for name in ("attention_norm", "ffn_norm"):
            weights[f"{layer}.{name}.weight"] = 1 + 0.3 * torch.randn(width, generator=noise)
            weights[f"{layer}.{name}.bias"] = 0.3 * torch.randn(width, generator=noise)
    return weights


def hidden(packing: Packing, width: int) -> Tensor:
    return torch.randn(packing.rows, width, generator=torch.Generator().manual_seed(packing.tokens))


def peaks(config: EncoderConfig, weights: Weights, positions: Positions) -> dict[str, Tensor]:
    layout = Observed()
    packing = Packing([40, 7], CPU)
    observed = TorchLayers(config, weights, positions, layout, CPU)
    observed(hidden(packing, config.hidden_size)[: packing.tokens], packing, config.num_layers)
    return layout.peaks


def error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


class Pair:
    """The same layers twice."""

    def __init__(
        self, kernels: str, dtype: str, config: EncoderConfig, positions: Positions
    ) -> None:
        self.config = config
        weights = random_weights(config)
        measured = peaks(config, weights, positions)
        self.ours = NativeLayers(config, Packed(weights, dtype, kernels, measured), positions)
        self.twin = TorchLayers(config, weights, positions, Plain(CPU, F32), CPU)

    def check(self, lengths: Sequence[int], close: float) -> None:
        packing = Packing(lengths, CPU)
        x = hidden(packing, self.config.hidden_size)
        for count in range(self.config.num_layers + 1):
            found = self.ours(x.clone(), packing, count)[: packing.tokens]
            expected = self.twin(x, packing, count)[: packing.tokens]
            assert error(found, expected) < close


@kernels
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_equals_its_twin(kernels: str, dtype: str, activation: str) -> None:
    Pair(kernels, dtype, shape(activation=activation), Positions()).check([5, 33], CLOSE[dtype])


@kernels
@settings(max_examples=10)
@given(
    lengths=st.lists(st.integers(1, 100), min_size=1, max_size=8),
    config=st.sampled_from(
        [
            *(shape(64, 2, 64), shape(64, 2, 192), shape(128, 2, 64), shape(128, 2, 192)),
            *(shape(128, 4, 64), shape(128, 4, 192), shape(192, 6, 64), shape(192, 6, 192)),
        ]
    ),
    kind=st.sampled_from(["plain", "biased", "causal"]),
)
def test_random_shapes_equal_their_twin(
    kernels: str, dtype: str, lengths: list[int], config: EncoderConfig, kind: str
) -> None:
    positions = Positions() if kind == "plain" else Slanted(config.num_heads, kind == "causal")
    Pair(kernels, dtype, config, positions).check(lengths, CLOSE[dtype])


@kernels
def test_more_tokens_than_fit_one_part_equal_their_twin(kernels: str, dtype: str) -> None:
    Pair(kernels, dtype, shape(), Positions()).check([500, 3, 260, 1, 90], CLOSE[dtype])


@kernels
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_sequence_is_the_same_bits_in_every_batch_and_on_any_threads(
    kernels: str, dtype: str, threads: int
) -> None:
    config = shape(128, 4, 192)
    layers = Pair(kernels, dtype, config, Slanted(4)).ours
    lengths = [1, 2, 3, 4, 13, 14, 15, 16, 17, 28, 29, 31, 32, 33, 200, 300]
    whole = Packing(lengths, CPU)
    x = hidden(whole, config.hidden_size)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        together = layers(x.clone(), whole, 2)
    finally:
        torch.set_num_threads(before)
    for start, length in zip(whole.starts.tolist(), lengths, strict=True):
        alone = layers(x[start : start + length].clone(), Packing([length], CPU), 2)
        assert torch.equal(alone, together[start : start + length])


@kernels
@pytest.mark.parametrize("broken", [0, 1, 2])
def test_a_sequence_of_nans_spoils_no_other(kernels: str, dtype: str, broken: int) -> None:
    lengths = [3, 20, 5]
    packing = Packing(lengths, CPU)
    layers = Pair(kernels, dtype, shape(), Positions()).ours
    x = hidden(packing, 64)
    clean = torch.split(layers(x.clone(), packing, 2)[: packing.tokens], lengths)
    x[packing.starts[broken] : packing.starts[broken] + lengths[broken]] = float("nan")
    spoilt = torch.split(layers(x, packing, 2)[: packing.tokens], lengths)
    for index in {0, 1, 2} - {broken}:
        assert torch.equal(spoilt[index], clean[index])
    assert spoilt[broken].isnan().all()


@kernels
def test_rows_of_no_sequence_are_left_alone(kernels: str, dtype: str) -> None:
    packing = Packing([33], CPU)
    x = torch.full((packing.rows, 64), 5.0)
    found = Pair(kernels, dtype, shape(), Positions()).ours(x, packing, 2)
    assert packing.rows > 33 and (found[33:] == 5).all() and not (found[:33] == 5).any()


@pytest.mark.parametrize(("kernels", "dtype"), [p for p in BUILT if "int8" in p.values])
def test_int8_rounds_as_its_twin_does(kernels: str, dtype: str) -> None:
    config = shape(128, 4, 192, layers=1)
    weights, packing = random_weights(config), Packing([9, 30], CPU)
    measured = peaks(config, weights, Positions())
    x = hidden(packing, 128)
    twin = TorchLayers(config, weights, Positions(), Rounded(measured), CPU)
    ours = NativeLayers(config, Packed(weights, dtype, kernels, measured), Positions())
    found = ours(x.clone(), packing, 1)[: packing.tokens]
    expected = twin(x, packing, 1)[: packing.tokens]
    # Attention in bfloat16 turns a few integers into their neighbours.
    assert error(found, expected) < 0.01


class Rounded:
    """A layout that rounds as int8 does, and computes in float32."""

    dtype = F32

    def __init__(self, peaks: dict[str, Tensor]) -> None:
        self.peaks = peaks

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> "RoundedLinear":
        quantized = quantize(weight, self.peaks[name])
        rows = quantized.weight.to(F32) * quantized.scales[:, None]
        return RoundedLinear(Plain(CPU, F32)(rows, bias, activation), quantized.smoothing)


class RoundedLinear:
    def __init__(self, linear: object, smoothing: Tensor) -> None:
        self.linear, self.smoothing = linear, smoothing

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        smooth = x * self.smoothing
        least, most = smooth.amin(1, keepdim=True).clamp(max=0), smooth.amax(1, keepdim=True)
        scale = (most.clamp(min=0) - least) / 255
        zero = (-least / scale).round()
        rounded = (smooth / scale + zero).round().clamp(0, 255) - zero
        assert callable(self.linear)
        y: Tensor = self.linear(rounded * scale, residual)
        return y


@pytest.mark.parametrize(
    ("config", "positions"),
    [
        (shape(hidden=96, heads=3), Positions()),
        (shape(inner=100), Positions()),
        (shape(heads=4), Positions()),
        (shape(), Turned()),
    ],
)
def test_what_the_kernels_cannot_compute_is_left_to_torch(
    config: EncoderConfig, positions: Positions
) -> None:
    assert fits(shape(), Positions())
    assert not fits(config, positions)


@pytest.mark.skipif(not BUILT, reason="no compiler at installation")
def test_the_best_instruction_set_of_a_processor_is_chosen() -> None:
    assert isa("float32", ISAS["avx2"]) == "avx2"
    assert isa("float32", ISAS["avx2"] | ISAS["avx512"]) == "avx512"
    assert isa("bfloat16", ISAS["avx2"] | ISAS["avx512"]) is None
    assert isa("float32", frozenset()) is None


def test_libraries_that_are_missing_or_broken_are_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert isa("float32", ISAS["avx2"], tmp_path) is None
    (tmp_path / "libencoder-avx2.so").write_text("this is no library")
    assert isa("int8", ISAS["avx2"], tmp_path) is None
    assert "kernels for avx2 are not used" in caplog.text
