"""Infrastructure for all processes: supervision, signals, logs, shared counters."""
