"""Plots of texts and position encodings, for `embedwell plot`."""
