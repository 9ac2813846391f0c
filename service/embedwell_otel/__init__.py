"""Traces and metrics over OpenTelemetry's protocol.

A server imports it if a setting enables one of them; `embedwell` only names it.
"""
