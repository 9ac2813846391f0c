"""Weights in other formats than plain safetensors: GGUF, ONNX, quantised layers, adapters.

A process imports it for such a model; `embedwell_models` only names it.
"""
