"""Kernels in Triton for GPUs. Raises ModuleNotFoundError without triton, which torch brings.

Each module has kernels, and functions that launch them on tensors. Kernels compute in float32 and
round once. Triton's compiler evaluates the annotations of a kernel, so they are its own names.
"""
