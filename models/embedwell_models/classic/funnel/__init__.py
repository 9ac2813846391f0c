"""Funnel Transformer."""
