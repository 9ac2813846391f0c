"""Requests in a file, computed while the server has nothing else to do."""
