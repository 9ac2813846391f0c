"""Compression of tables: fewer words or dimensions, 8-bit rows, codes, tiers or a shared pool."""
