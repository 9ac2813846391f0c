"""Conversion of texts to token ids and back, with offsets, truncation and long texts."""
