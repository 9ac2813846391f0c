"""Weights of ONNX files, whose graph is not run."""
