"""Reads inputs: texts, pairs, chunks and images become rows of token ids, in steps."""
