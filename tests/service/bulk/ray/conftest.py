"""Clusters of Ray next to other tests."""

import os

# Ray gives its workers a low priority, with which they hardly start while other tests compute.
os.environ.setdefault("RAY_worker_niceness", "0")
