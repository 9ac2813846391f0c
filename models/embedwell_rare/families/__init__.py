"""Families of models that few people embed with."""
