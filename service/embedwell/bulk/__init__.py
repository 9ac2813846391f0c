"""Embed more texts than fit into memory, from files into a folder of parts."""
