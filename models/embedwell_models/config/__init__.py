"""Typed access to config.json and other JSON files of a model, and the options to load it with."""
