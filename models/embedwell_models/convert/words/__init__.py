"""Conversion of files of word vectors to folders that processes map into memory."""
