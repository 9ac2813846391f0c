"""Weights in other formats than plain safetensors: GGUF, ONNX and quantised layers.

A process imports it for such a model; `embedwell_models` only names it.
"""
