"""Compiled linear layers against torch, for every instruction set of this processor."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from embedwell_models.cpu_backend.library import SHORT_SUMS
from embedwell_models.cpu_backend.linear import ACTIVATIONS, KernelLinearFactory
from embedwell_models.cpu_backend.prepack import Packing
from embedwell_models.cpu_backend.quantization import (
    InputObserver,
    mixed,
    quantize_weight,
    rotate,
    signs,
)
from embedwell_models.encoder.threads import single_threaded
from embedwell_models.torch_backend.linear import (
    Linear,
    LinearFactory,
    TorchLinearFactory,
)
from embedwell_models.torch_backend.linear_adapters import TensorKernelLinearFactory
from embedwell_models.torch_backend.sequence_layout import SequenceLayout
from tests.models.built import BUILT, kernels
from tests.models.cpu_backend.pair import Rounded, size
from tests.models.threads import use_threads

CPU = torch.device("cpu")
F32 = torch.float32
CLOSE = {"float32": 1e-6, "bfloat16": 0.006, "int8": 0.03}  # of the length of what is expected
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
ISAS = [isa for isa, dtype in (case.values for case in BUILT) if dtype == "float32"]
INT8: list[str] = [str(isa) for isa, dtype in (case.values for case in BUILT) if dtype == "int8"]


def compiled(kernels: str, packing: Packing) -> TensorKernelLinearFactory:
    return TensorKernelLinearFactory(KernelLinearFactory(kernels, packing))


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def error(found: Tensor, expected: Tensor) -> float:
    assert found.shape == expected.shape
    return float((found - expected).norm() / expected.norm())


@dataclass(frozen=True)
class Kind:
    size: int = 64
    width: int = 64
    activation: str = "none"
    gated: bool = False

    def build(self, linear_factory: LinearFactory, scales: Tensor) -> Linear:
        gate, up = (
            (
                numbers(self.width, self.size, seed=seed) / scales / self.size**0.5,
                numbers(self.width),
            )
            for seed in (1, 2)
        )
        if self.gated:
            return linear_factory.gated(gate, up, self.activation, name="layer")
        return linear_factory(*gate, self.activation, name="layer")


class Pair:
    """The same layer compiled and on torch."""

    def __init__(self, kernels: str, dtype: str, kind: "Kind") -> None:
        # As in real models, some inputs are larger than others.
        self.scales = 1 + 20 * (numbers(kind.size) > 2)
        self.sizes = {"layer": 4 * self.scales.float().numpy()}
        self.ours = kind.build(compiled(kernels, Packing(dtype, self.sizes)), self.scales)
        self.twin = kind.build(TorchLinearFactory(CPU, F32), self.scales)

    def input(self, rows: int) -> Tensor:
        return numbers(rows, len(self.scales), seed=rows) * self.scales

    def error(self, rows: int, residual: Tensor | None = None) -> float:
        x = self.input(rows)
        return error(self.ours(x, residual), self.twin(x, residual))


@pytest.mark.full(after=14)
@kernels
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_equals_torchs(
    kernels: str, dtype: str, activation: str, gated: bool
) -> None:
    assert Pair(kernels, dtype, Kind(128, 64, activation, gated)).error(37) < CLOSE[dtype]


@kernels
@settings(max_examples=25)
@given(
    rows=st.integers(1, 700),
    kind=st.builds(
        Kind,
        size=st.sampled_from([1, 64, 100, 128, 192, 320]),
        width=st.sampled_from([1, 16, 32, 50, 64, 160, 224]),
        activation=st.sampled_from(["none", "gelu", "silu"]),
        gated=st.booleans(),
    ),
)
@pytest.mark.full
def test_random_shapes_equal_torchs(kernels: str, dtype: str, rows: int, kind: Kind) -> None:
    pair = Pair(kernels, dtype, kind)
    assert pair.error(rows) < CLOSE[dtype]
    assert pair.error(rows, numbers(rows, kind.width)) < CLOSE[dtype]


@kernels
@settings(max_examples=20)
@given(
    lengths=st.lists(st.integers(0, 90), min_size=1, max_size=9).filter(any),
    size=st.sampled_from([1, 64, 100, 192]),
    width=st.sampled_from([1, 32, 50, 224]),
)
@pytest.mark.full
def test_the_maximum_over_the_rows_of_each_sequence_equals_torchs(
    kernels: str, dtype: str, lengths: list[int], size: int, width: int
) -> None:
    kind = Kind(size, width)
    pair = Pair(kernels, dtype, kind)
    weight, bias = numbers(width, size, seed=1) / pair.scales / size**0.5, numbers(width) - 1
    factories = (
        compiled(kernels, Packing(dtype, pair.sizes)),
        TorchLinearFactory(CPU, F32),
    )
    ours, twin = (factory.row_maximum(weight, bias, name="layer") for factory in factories)
    x = pair.input(sum(lengths))
    layout = SequenceLayout(lengths, CPU)
    maxima, expected = ours(x, layout), twin(x, layout)
    assert maxima.shape == expected.shape == (len(lengths), width)
    assert (maxima - expected).norm() <= 2 * CLOSE[dtype] * (expected.norm() + 1)
    assert (maxima[[length == 0 for length in lengths]] == 0).all()


@kernels
def test_a_maximum_over_rows_is_the_same_bits_alone_and_on_one_thread(
    kernels: str, dtype: str
) -> None:
    pair = Pair(kernels, dtype, Kind(128, 96))
    factory = compiled(kernels, Packing(dtype, pair.sizes))
    maximum = factory.row_maximum(numbers(96, 128, seed=1), numbers(96), name="layer")
    lengths = [3, 400, 1, 77]
    x = pair.input(sum(lengths))
    layout = SequenceLayout(lengths, CPU)
    together = maximum(x, layout)
    alone = [maximum(rows, SequenceLayout([len(rows)], CPU)) for rows in torch.split(x, lengths)]
    assert torch.equal(together, torch.cat(alone))
    with single_threaded():
        assert torch.equal(together, maximum(x, layout))


@pytest.mark.full(after=1)
@kernels
def test_rows_too_wide_for_a_cores_cache_equal_torchs(kernels: str, dtype: str) -> None:
    assert Pair(kernels, dtype, Kind(4096, 32)).error(401) < CLOSE[dtype]


@kernels
def test_what_is_multiplied_is_rounded_as_its_precision_says(kernels: str, dtype: str) -> None:
    kind = Kind(192, 96)
    pair = Pair(kernels, dtype, kind)
    x = pair.input(50)
    if dtype == "int8":
        expected = kind.build(Rounded(kernels, pair.sizes), pair.scales)(x)
    else:
        rounded = Rounding(DTYPES[dtype])
        expected = kind.build(rounded, pair.scales)(x.to(rounded.rounding).to(F32))
    assert error(pair.ours(x), expected) < 2e-6


@pytest.mark.parametrize("isa", INT8)
@pytest.mark.parametrize("row", [[1, 1], [-1, -1], [1, -1], [1, 0.01], [1, 0.4, 0.7, 0.7]], ids=str)
def test_sums_of_the_largest_integers_are_exact(isa: str, row: list[float]) -> None:
    # The pattern is that of the rotated weights and inputs: smoothing leaves these weights alone.
    pattern = np.array([row * (192 // len(row))] * 64, np.float32)
    weight, bias = torch.from_numpy(rotate(pattern) * signs(192)), torch.zeros(64)
    sizes = ((weight[0].abs() * weight[0].norm().sqrt()) ** 1.5).numpy()
    y = np.ones((3, 192), np.float32)
    y[1, ::3], y[2] = -0.6, -1
    smoothing = quantize_weight(weight.numpy(), sizes, "layer", isa in SHORT_SUMS).smoothing
    x = torch.from_numpy(rotate(y) / smoothing / mixed(192))
    factories = compiled(isa, Packing("int8", {"layer": sizes})), Rounded(isa, {"layer": sizes})
    found, expected = (build(weight, bias, name="layer")(x) for build in factories)
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=2e-6)


def test_int8_is_the_same_bits_in_all_kernels_that_sum_alike() -> None:
    for short in (True, False):
        alike = [isa for isa in INT8 if (isa in SHORT_SUMS) == short]
        pairs = [Pair(isa, "int8", Kind(192, 96, "gelu")) for isa in alike]
        rows = [pair.ours(pair.input(50)) for pair in pairs]
        assert all(torch.equal(found, rows[0]) for found in rows)


@pytest.mark.parametrize(
    "kernels", [param.values[0] for param in BUILT if "float32" in param.values]
)
def test_a_product_in_float32_is_as_exact_as_float32_is(kernels: str) -> None:
    x, weight = (numbers(40, 384, seed=i) * 2 ** numbers(40, 384, seed=i + 2) for i in (0, 2))
    found = compiled(kernels, Packing("float32"))(weight, torch.zeros(40))(x)
    expected, size = x.double() @ weight.double().T, x.double().abs() @ weight.double().abs().T
    assert ((found - expected).abs() / size).max() < 2**-21


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_weights_that_16_bits_hold_are_exact_as_floats_of_32_bits(
    isa: str, dtype: torch.dtype
) -> None:
    weight = numbers(96, 128).to(dtype).to(F32)
    weight[0, :4] = torch.tensor([0.0, -0.0, 2.0**-24, 65504.0]).to(dtype).to(F32)
    others = numbers(32, 128, seed=1)  # which only 32 bits hold, so that all have 32 bits
    factory = compiled(isa, Packing("float32"))
    short = factory(weight, numbers(96))
    whole = factory(torch.cat([weight, others]), torch.cat([numbers(96), others[:, 0]]))
    x = numbers(90, 128, seed=2)
    for rows in (1, 2, 5, 6, 7, 14, 15, 16, 29, 90):
        assert torch.equal(short(x[:rows]), whole(x[:rows])[:, :96]), rows


class Rounding(LinearFactory):
    """Weights that another precision has too."""

    dtype = F32

    def __init__(self, rounding: torch.dtype) -> None:
        self.rounding = rounding

    def __call__(
        self, weight: Tensor, bias: Tensor, activation: str = "none", *, name: str = ""
    ) -> Linear:
        return TorchLinearFactory(CPU, F32)(weight.to(self.rounding).to(F32), bias, activation)


@kernels
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.full(after=2)
def test_a_row_is_the_same_bits_in_every_batch_and_on_any_threads(
    kernels: str, dtype: str, gated: bool
) -> None:
    pair = Pair(kernels, dtype, Kind(128, 96, "gelu", gated))
    x, residual = pair.input(400), numbers(400, 96)
    alone = torch.cat([pair.ours(x[i : i + 1], residual[i : i + 1]) for i in range(400)])
    for threads in (1, 2, 5):
        with use_threads(threads):
            for rows in (2, 13, 16, 17, 31, 33, 64, 127, 129, 257, 400):
                assert torch.equal(pair.ours(x[:rows], residual[:rows]), alone[:rows]), rows


@pytest.mark.full(after=7)
@kernels
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_row_of_nans_stays_one_and_spoils_no_other(
    kernels: str, dtype: str, activation: str
) -> None:
    pair = Pair(kernels, dtype, Kind(activation=activation))
    x, residual = pair.input(9), numbers(9, 64)
    clean = pair.ours(x, residual)
    x[4], residual[4] = float("nan"), float("nan")
    spoilt = pair.ours(x, residual)
    assert spoilt[4].isnan().all()
    assert torch.equal(spoilt[[0, 1, 2, 3, 5, 6, 7, 8]], clean[[0, 1, 2, 3, 5, 6, 7, 8]])
    if dtype != "int8":  # which has integers only; the residual keeps what is none
        assert pair.ours(x)[4].isnan().all()


@kernels
def test_rows_that_lie_apart_are_read_as_they_are(kernels: str, dtype: str) -> None:
    pair = Pair(kernels, dtype, Kind())
    x, residual = pair.input(20), numbers(20, 64)
    apart = pair.ours(x.T.contiguous().T, residual.T.contiguous().T)
    assert torch.equal(apart, pair.ours(x, residual))


@kernels
def test_no_rows_make_none(kernels: str, dtype: str) -> None:
    assert Pair(kernels, dtype, Kind()).ours(torch.empty(0, 64)).shape == (0, 64)


@kernels
@pytest.mark.parametrize("size", [64, 100])
def test_an_input_of_another_shape_or_precision_is_not_read(
    kernels: str, dtype: str, size: int
) -> None:
    layer = Pair(kernels, dtype, Kind(size)).ours
    for x in (numbers(3, size + 1), numbers(3, size - 1), numbers(3, size).double()):
        with pytest.raises(AssertionError):
            layer(x)


@kernels
def test_a_residual_of_another_shape_or_precision_is_not_read(kernels: str, dtype: str) -> None:
    layer = Pair(kernels, dtype, Kind()).ours
    for residual in (numbers(2, 64), numbers(3, 32), numbers(3, 64).double()):
        with pytest.raises(AssertionError):
            layer(numbers(3, 64), residual=residual)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("depth", [1, 64, 100])
@pytest.mark.parametrize("kernels", ISAS)
def test_a_layer_observes_all_its_inputs(kernels: str, depth: int, gated: bool) -> None:
    observer = InputObserver()
    factory = compiled(kernels, Packing("float32", observer=observer))
    layer = Kind(depth, 48, gated=gated).build(factory, torch.ones(depth))
    first, second = numbers(200, depth), -3 * numbers(5, depth)
    with single_threaded():
        layer(first)
        layer(second)
    magnitudes = observer.magnitudes()["layer"]
    np.testing.assert_allclose(magnitudes[:depth], size(torch.cat([first, second])), rtol=1e-5)
    assert not magnitudes[depth:].any()
