"""Families of decision models."""
