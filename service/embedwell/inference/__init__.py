"""Computation of the vectors of a request."""
