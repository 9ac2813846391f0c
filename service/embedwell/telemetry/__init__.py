"""Metrics for Prometheus, and metrics and traces for OpenTelemetry."""
