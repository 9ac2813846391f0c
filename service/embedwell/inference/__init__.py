"""Compute the vectors of a request."""
