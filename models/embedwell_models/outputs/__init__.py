"""Outputs of a text: dense vector, sparse vector, and a vector for each token."""
