"""Requests to models: the HTTP process and the engine process of the embedding service."""

__version__ = "0.2.0"
