"""Outputs of a text: their names, and the vectors themselves."""
