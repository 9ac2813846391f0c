"""Kernels in Triton for GPUs. Raises ModuleNotFoundError without triton, which torch brings.

Each module has a kernel and a function that launches it on tensors. Kernels compute in float32 and
round once. Triton's compiler evaluates the annotations of a kernel, so they are its own names.
"""
