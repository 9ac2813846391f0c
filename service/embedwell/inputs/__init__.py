"""Tokenization of inputs: prompts, truncation, windows, chunks and spans."""
