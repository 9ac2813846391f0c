"""Tests of models in GGUF."""
