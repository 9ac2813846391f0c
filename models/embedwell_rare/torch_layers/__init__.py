"""Layers of rare families on torch."""
