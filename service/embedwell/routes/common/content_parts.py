"""The content of an input as a list of parts, as APIs for texts and images have it."""

from collections.abc import Sequence
from typing import Protocol

from embedwell.inputs.content_input import ContentInput
from embedwell.inputs.image_input import ImageInput
from embedwell.inputs.options import Input


class Part(Protocol):
    """A part of an input's content."""

    @property
    def value(self) -> str | ImageInput:
        """Return the text or the image."""


def input_of_parts(parts: Sequence[Part]) -> Input:
    """Return the only text or image of an input, or all of its parts."""
    values = [part.value for part in parts]
    return values[0] if len(values) == 1 else ContentInput.of(values)
