"""CANINE."""
