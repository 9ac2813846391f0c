"""Outputs of a text, by name: dense and sparse vectors, and a vector of each token."""
