"""Prometheus metrics of requests and of models."""
