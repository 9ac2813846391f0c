"""Checkpoints in safetensors whose weights are stored quantised, with parts for each layer."""
