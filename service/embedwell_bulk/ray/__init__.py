"""Embed a Ray Dataset, and serve with Ray Serve."""
