"""The way of a request through the code, which may only become shorter."""

import os
from pathlib import Path

from tests.builds.trace import trace_request

ROOT = Path(__file__).parents[2]
MOST = {
    "http": {
        "files": 32,
        "calls": 255,  # on a quiet machine 196, 107, 35: a busy one reads a request in parts
        "moves": 139,
        "package_moves": 43,
        "modules": 153,  # with those that are imported before the first process is forked
        "wing_modules": 0,
    },
    # On a quiet machine, there are 14 moves: a busy one changes the number of threads.
    "engine": {"files": 16, "package_moves": 18, "modules": 134, "wing_modules": 0},
}
"""Lower these numbers when a change allows it."""


def test_a_short_text_takes_no_longer_way_than_before(minilm_folder: Path) -> None:
    path = os.pathsep.join(str(ROOT / part) for part in ("models", "service"))
    ways = trace_request(path, minilm_folder)
    for process, most in MOST.items():
        assert ways[process].keys() == most.keys()
        longer = {name: value for name, value in ways[process].items() if value > most[name]}
        assert not longer, f"{process}: {longer}, of at most {most}"
