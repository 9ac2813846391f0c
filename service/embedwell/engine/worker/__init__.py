"""The engine process: jobs, batches, forward passes."""
