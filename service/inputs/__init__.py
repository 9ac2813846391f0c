"""Inputs to rows of token ids: prompts, cuts, windows, chunks and spans."""
