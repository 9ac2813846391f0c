"""The encoder in compiled kernels: the library, its ABI, and weights in its layout."""
