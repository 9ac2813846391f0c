"""Older models and words: their encoders, conversion, smaller tables and training.

A process imports it for such a model or command; `embedwell` and `embedwell_models` only name it.
"""
