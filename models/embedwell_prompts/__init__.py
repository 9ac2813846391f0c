"""Texts around the inputs of language models: chat templates, and pairs and lists of rerankers.

A process imports it for such a model; `embedwell_models` only names it.
"""
