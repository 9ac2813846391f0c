"""Upper bound of the speed, at which only matrix products take time."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.environments import ROOT
from embedwell_models import families


def peaks(count: int) -> dict[str, float | None]:
    """Return the machine's rate of matrix products in GFLOP/s, by precision."""
    command = [sys.executable, "-m", "benchmarks.peers.roofline", str(count)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    peaks: dict[str, float | None] = json.loads(done.stdout)
    return peaks


def flop_per_token(folder: Path) -> float:
    """Count the operations of matrix products with weights, which are nearly all of the work."""
    config = families.read(folder).config
    size = config.hidden_size
    weights = 4 * size * size + 2 * size * config.feed_forward.inner
    return 2.0 * config.num_layers * weights
