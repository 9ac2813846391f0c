"""The tensors of a checkpoint: safetensors files."""
