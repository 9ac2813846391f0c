"""Conversion of files of word vectors to folders that any process maps."""
