"""Which precision to compute in, and why."""
