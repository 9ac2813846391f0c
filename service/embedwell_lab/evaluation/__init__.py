"""Evaluate vectors: parity with a reference, and scores of tasks."""
