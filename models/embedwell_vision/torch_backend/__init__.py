"""Encoders of images that are tokens of a text, on torch."""
