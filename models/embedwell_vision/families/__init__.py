"""Families of models that embed images, or texts with images."""
