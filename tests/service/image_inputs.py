"""Images, and texts with images, as requests have them."""

import base64
from collections.abc import Sequence
from typing import Any


def data_url(data: bytes) -> str:
    """An encoded image as a data URL, whose type the server does not read."""
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def image(data: bytes) -> dict[str, str]:
    """An image as an input of its own."""
    return {"image": data_url(data)}


def content(parts: Sequence[str | bytes]) -> dict[str, Any]:
    """Texts and encoded images as one input."""
    return {"content": [_text(part) if isinstance(part, str) else _image(part) for part in parts]}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(data: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(data)}}
