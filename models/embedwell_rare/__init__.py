"""Families of text encoders that few people embed with, such as GPT-2, ESM and NV-Embed.

A process imports the module of a family for a model of it; `embedwell_models` only names it.
"""
