"""Encoders of older models, each with layers of its own."""
