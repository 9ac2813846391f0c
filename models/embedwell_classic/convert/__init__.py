"""Conversion of older checkpoints and word vectors to the files that a server reads."""
