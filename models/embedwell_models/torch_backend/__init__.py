"""Encoders and heads on torch, for any device."""
