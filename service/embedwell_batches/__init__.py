"""Batches: requests in a file, computed while the server is idle."""
