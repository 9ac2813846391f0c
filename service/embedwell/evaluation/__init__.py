"""Whether vectors are right, and how good they are: parity with a reference, scores of tasks."""
