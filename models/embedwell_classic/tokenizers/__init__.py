"""Tokenizers in Python, with the interface of the library tokenizers: words, bytes, characters."""
