"""Names of Unicode's normalisations, in a module without imports of models."""

from typing import Literal, get_args

UnicodeForm = Literal["none", "nfc"]
"""Normalisation of texts before their tokenization: none, or letters composed with their marks."""
UNICODE_FORMS: tuple[str, ...] = get_args(UnicodeForm)
