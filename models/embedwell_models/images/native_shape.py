"""The size to which an image is resized if a model reads images of any proportions (NaFlex)."""

from math import ceil

_LEAST, _MOST = 1e-5 / 10, 100.0  # factors of the size
_STEP = 1e-5  # precision of the factor


def native_size(width: int, height: int, patch: int, most: int) -> tuple[int, int]:
    """Return the width and height in whole patches, with about the proportions of an image.

    patch: pixels of a patch's side. most: number of patches, which the size comes close to. The
    factor is found by bisection to the same digits as in transformers' Siglip2ImageProcessor.
    """
    low, high = _LEAST, _MOST
    while high - low >= _STEP:
        middle = (low + high) / 2
        columns, rows = (_patches(length, middle, patch) for length in (width, height))
        low, high = (middle, high) if columns * rows <= most else (low, middle)
    columns, rows = (_patches(length, low, patch) for length in (width, height))
    return columns * patch, rows * patch


def _patches(length: int, factor: float, patch: int) -> int:
    return max(1, ceil(length * factor / patch))
