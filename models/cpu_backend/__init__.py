"""The encoder in compiled kernels: the library, its binary interface, weights laid out for it."""
