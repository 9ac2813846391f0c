"""Tokenizers of transformers whose words are found in Python, from vocab.txt."""
