"""What any process of this program needs: supervision, signals, logs, shared counters."""
