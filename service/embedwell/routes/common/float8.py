"""Conversion to the 8-bit floating-point numbers of vLLM's API."""

from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from embedwell_models.vectors import Floats

Float8Type = Literal["fp8_e4m3", "fp8_e5m2"]
Codes = np.ndarray[Any, np.dtype[np.uint8]]


class _Format(NamedTuple):
    """Layout of a number: a sign, an exponent and `mantissa` bits.

    codes: the non-negative numbers, which are the codes from 0; those above are not numbers.
    """

    mantissa: int
    bias: int
    codes: int


_FORMATS: dict[Float8Type, _Format] = {
    "fp8_e4m3": _Format(mantissa=3, bias=7, codes=0x7F),
    "fp8_e5m2": _Format(mantissa=2, bias=15, codes=0x7C),
}


@cache
def float8_values(dtype: Float8Type) -> Floats:
    """Return the non-negative numbers of a type, ascending."""
    mantissa, bias, count = _FORMATS[dtype]
    codes = np.arange(count)
    exponents = codes >> mantissa
    whole = codes % (1 << mantissa) + (exponents > 0) * (1 << mantissa)
    values: Floats = np.ldexp(whole, np.maximum(exponents, 1) - bias - mantissa).astype(np.float32)
    return values


@cache
def _thresholds(dtype: Float8Type) -> Floats:
    """Return the least number that is rounded to each code but 0: to the nearest, ties to even."""
    values = float8_values(dtype)
    middles: Floats = ((values[:-1] + values[1:]) / 2).astype(np.float32)
    middles[::2] = np.nextafter(middles[::2], np.float32(np.inf))
    return middles


def to_float8(values: Floats, dtype: Float8Type) -> Codes:
    """Round numbers to a type, and return its codes; a number above the greatest becomes that."""
    codes: Codes = np.searchsorted(_thresholds(dtype), np.abs(values), "right").astype(np.uint8)
    codes |= np.signbit(values).astype(np.uint8) << 7
    return codes
