"""Embed more texts than fit in memory: files in, parts of a folder out."""
