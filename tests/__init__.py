"""Tests of embedwell. They mirror its modules."""

import os

# Threads of torch that wait spin for so long by default (GNU OpenMP) that tests in several
# processes take up to ten times the processor's time. The server sets the same limit for its own.
os.environ.setdefault("GOMP_SPINCOUNT", "3000")  # read when torch is imported

# A start must not depend on what another test has measured.
os.environ.setdefault("EMBEDWELL_STARTUP_CACHE", "false")
