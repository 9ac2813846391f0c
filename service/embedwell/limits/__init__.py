"""Limits of the work of requests: sizes, memory, threads, queues and admission."""
