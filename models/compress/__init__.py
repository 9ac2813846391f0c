"""Smaller tables: fewer words, fewer dimensions, and rows of 8-bit integers."""
