"""Tokenizers of transformers that split words in Python, with a vocab.txt."""
