"""Names of what computes images: a process imports it for a model with images."""

TEXTS_WITH_IMAGES = "embedwell_vision.torch_backend.texts_with_images:load"
"""Loader of the encoder of texts with images."""
