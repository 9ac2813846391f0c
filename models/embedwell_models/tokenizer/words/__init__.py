"""Tokenizers of words, characters and code points, written in Python."""
