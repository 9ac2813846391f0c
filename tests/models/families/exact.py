"""Values of a reference in float32, and in float64 where ours differ from them.

Two computations in float32 differ by their roundings. These depend on the order of sums, which is
another on every processor, and on how much the layers of a model amplify them. So values that
differ from the reference's by more than a few roundings are compared with its values in float64,
and may differ from them by a small multiple of the error that the reference makes in float32. With
FLOAT64_REFERENCES=1 in the environment, all are compared so, as another processor may need it.
"""

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial, wraps
from typing import Any, ParamSpec

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

P = ParamSpec("P")

FLOOR = 2e-5  # of the largest value
MULTIPLE = 8.0  # of the reference's own error
_ALWAYS_EXACT = "FLOAT64_REFERENCES" in os.environ

_WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}


class _Float64(TorchFunctionMode):
    """Compute in float64 from tensors in float32, and where code asks for float32."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = {name: _widened(value) for name, value in (kwargs or {}).items()}
        return (Tensor.double if func is Tensor.float else func)(*map(_widened, args), **named)


def _widened(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.double() if value.dtype is torch.float32 else value
    if isinstance(value, torch.dtype):
        return _WIDER.get(value, value)
    return type(value)(map(_widened, value)) if type(value) in (list, tuple) else value


@dataclass(frozen=True)
class Expected:
    """Values that a reference computes in float32, and what computes them in float64."""

    rounded: Tensor
    compute: Callable[[], Tensor]

    @cached_property
    def values(self) -> Tensor:
        """The exact values, in float64."""
        return self.compute()

    @cached_property
    def error(self) -> float:
        """The largest error of the reference in float32."""
        return float((self.values - self.rounded).abs().max())

    def tolerance(self) -> float:
        """The largest difference from the exact values that counts as rounding."""
        return max(FLOOR * float(self.values.abs().max()), MULTIPLE * self.error)

    def is_near(self, found: Tensor) -> bool:
        """Whether values are as close as the roundings of float32 allow."""
        mine, rounded = found.double(), self.rounded.double()
        if mine.shape != rounded.shape:
            return False
        if not _ALWAYS_EXACT and (mine - rounded).abs().max() <= FLOOR * rounded.abs().max():
            return True
        return torch.allclose(mine, self.values, atol=self.tolerance(), rtol=0)


def _each(
    compute_rounded: Callable[[], Sequence[Any]], compute_exact: Callable[[], Sequence[Any]]
) -> list[Expected]:
    """Compute several values in float32, and in float64 once one of them needs that."""
    with one_thread(), torch.inference_mode():
        rounded = [*map(torch.as_tensor, compute_rounded())]
    exact = cache(compute_exact)

    def compute(index: int) -> Tensor:
        return torch.as_tensor(exact()[index])

    return [Expected(value, partial(compute, index)) for index, value in enumerate(rounded)]


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute in one thread for a while: of small products, others only wait."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def in_float64(model: Any) -> Iterator[Any]:
    """Yield a copy of a torch model that computes in float64, also where it asks for float32."""
    with widened(copy.deepcopy(model)) as exact:
        yield exact


@contextmanager
def widened(model: Any) -> Iterator[Any]:
    """Convert a torch model to float64, and compute in it also where the model asks for float32."""
    exact = model.double()
    with _float64():
        yield exact


@contextmanager
def _float64() -> Iterator[None]:
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with one_thread(), torch.inference_mode(), _Float64():
            yield
    finally:
        torch.set_default_dtype(usual)


def expected_list(model: Any, compute: Callable[[Any], Sequence[Tensor]]) -> list[Expected]:
    """Compute tensors by a model, in float32 and perhaps in float64.

    Until they are compared, the model and what `compute` refers to may not change.
    """

    def compute_exact() -> Sequence[Tensor]:
        with in_float64(model) as exact:
            return compute(exact)

    return _each(lambda: compute(model), compute_exact)


def expected(model: Any, compute: Callable[[Any], Tensor]) -> Expected:
    """Compute a tensor by a model, as `expected_list` does."""
    [result] = expected_list(model, lambda either: [compute(either)])
    return result


def exact_vectors(model: Any, texts: Sequence[str], **options: Any) -> Expected:
    """Compute vectors by a model of sentence-transformers, exactly: (B, D)."""
    return expected(model, lambda either: either.encode(texts, convert_to_tensor=True, **options))


def exactly(compute: Callable[P, Any]) -> Callable[P, Expected]:
    """Decorate a reference on torch, so that it computes in float32 and perhaps in float64.

    Weights and inputs may be in float32: each operation widens them.
    """

    @wraps(compute)
    def compute_both(*args: P.args, **kwargs: P.kwargs) -> Expected:
        [result] = each_exactly(lambda: [compute(*args, **kwargs)])()
        return result

    return compute_both


def each_exactly(compute: Callable[P, Sequence[Any]]) -> Callable[P, list[Expected]]:
    """Decorate a reference that returns several tensors, as `exactly` does."""

    @wraps(compute)
    def compute_both(*args: P.args, **kwargs: P.kwargs) -> list[Expected]:
        def compute_exact() -> Sequence[Any]:
            with _float64():
                values = [*map(torch.as_tensor, compute(*args, **kwargs))]
            for value in values:
                assert value.dtype is torch.float64, "a step of the reference rounds to float32"
            return values

        return _each(lambda: compute(*args, **kwargs), compute_exact)

    return compute_both


def assert_near(found: NDArray[np.floating[Any]] | Tensor, expected: Expected) -> None:
    """Assert that vectors are as close to a reference as the roundings of float32 allow."""
    mine = torch.as_tensor(found)
    if not expected.is_near(mine):
        atol = expected.tolerance()
        torch.testing.assert_close(mine.double(), expected.values, atol=atol, rtol=0)
