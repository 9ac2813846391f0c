"""Exact values of a reference, and the error that the reference itself makes in float32.

Two computations in float32 differ by their roundings. These depend on the order of sums, which is
another on every processor, and on how much the layers of a model amplify them. So ours is compared
with the values in float64, and may differ from them by a small multiple of the reference's error.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

FLOOR = 2e-5  # of the largest value
MULTIPLE = 8.0  # of the reference's own error


class _Float64(TorchFunctionMode):
    """Compute in float64 where the code of a model asks for float32."""

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
    return torch.float64 if value is torch.float32 else value


@dataclass(frozen=True)
class Expected:
    """Exact values in float64, and the largest error of the reference in float32."""

    values: Tensor
    error: float

    @property
    def tolerance(self) -> float:
        """The largest difference that counts as rounding."""
        return max(FLOOR * float(self.values.abs().max()), MULTIPLE * self.error)


@contextmanager
def in_float64(model: Any) -> Iterator[Any]:
    """Yield a copy of a torch model that computes in float64, also where it asks for float32."""
    usual = torch.get_default_dtype()
    exact = copy.deepcopy(model).double()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode(), _Float64():
            yield exact
    finally:
        torch.set_default_dtype(usual)


def expected_list(model: Any, compute: Callable[[Any], Sequence[Tensor]]) -> list[Expected]:
    """Compute tensors by a model, in float64 and in float32."""
    with in_float64(model) as exact:
        values = compute(exact)
    with torch.inference_mode():
        rounded = compute(model)
    pairs = zip(values, rounded, strict=True)
    return [Expected(value, float((value - other).abs().max())) for value, other in pairs]


def expected(model: Any, compute: Callable[[Any], Tensor]) -> Expected:
    """Compute a tensor by a model, in float64 and in float32."""
    [result] = expected_list(model, lambda either: [compute(either)])
    return result
