"""Encoder that runs in compiled kernels: the library, its ABI, and weights in its layout."""
