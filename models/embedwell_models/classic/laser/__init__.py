"""LASER 2 and 3."""
