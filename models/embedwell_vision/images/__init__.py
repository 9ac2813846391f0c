"""Conversion of encoded images to pixels of the size that a model reads, without torch."""
