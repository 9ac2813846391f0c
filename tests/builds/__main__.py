"""Compare this build with another: what must stay the same, and what may only fall.

`python -m tests.builds FOLDER`, of a checkout whose kernels are compiled, for example a worktree of
the commit before. The program ends with status 1 if the vectors or the API differ, or if a request
takes a longer way through the code. Then it starts both servers in turn and counts requests.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from embedwell_models.hub.sources import resolve
from tests.builds.trace import run_server, trace_request
from tests.models.families.every import EVERY, write_model
from tests.models.tiny import VOCABULARY

_THIS = Path(__file__).parents[2]
_TEXTS, _ROUNDS, _SECONDS = 300, 3, 4.0
_EMBED = """
import hashlib, json, sys
from embedwell_models.embedder import Embedder
texts = json.load(open(sys.argv[1]))
for folder in sys.argv[2:]:
    vectors = Embedder.load(folder, dtype="float32", pooling="mean").embed(texts)
    print(hashlib.sha256(vectors.tobytes()).hexdigest(), flush=True)
"""


def python_path(checkout: Path) -> str:
    """Return the PYTHONPATH of a checkout's packages."""
    return os.pathsep.join(str(checkout / part) for part in ("models", "service"))


def vectors(checkout: Path, texts: Path, models: Sequence[Path]) -> list[str]:
    """Return a hash of the vectors of each model."""
    environment = os.environ | {"PYTHONPATH": python_path(checkout)}
    command = [sys.executable, "-P", "-W", "ignore", "-c", _EMBED, *map(str, (texts, *models))]
    return subprocess.check_output(command, env=environment, text=True).split()


def requests_per_second(checkout: Path, model: Path) -> tuple[float, float]:
    """Return the seconds of a start, and the short texts that one client gets in a second."""
    begin = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        run_server(python_path(checkout), model, Path(folder)) as (_, url),
        httpx.Client(base_url=url) as client,
    ):
        start, count = time.monotonic() - begin, 0
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            client.post("/embed", json={"inputs": f"text {count}"}).raise_for_status()
            count += 1
    return start, count / _SECONDS


def differing_models(other: Path, folder: Path) -> list[str]:
    """Return the families whose vectors differ, each by a model of random weights."""
    dice, names = random.Random(5), []
    lines = [" ".join(dice.choices([*VOCABULARY], k=dice.randint(1, 60))) for _ in range(_TEXTS)]
    texts = folder / "texts.json"
    texts.write_text(json.dumps(lines))
    for case in EVERY:
        with contextlib.suppress(FileExistsError):  # several cases of a family
            (folder / str(case)).mkdir()
            write_model(case, folder / str(case))
            names.append(str(case))
    models = [folder / name for name in names]
    hashes = [vectors(checkout, texts, models) for checkout in (_THIS, other)]
    print(f"vectors of {len(models)} families, {_TEXTS} texts each")
    return [name for name, ours, theirs in zip(names, *hashes, strict=True) if ours != theirs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout with compiled kernels")
    other, model = parser.parse_args().other.resolve(), resolve("all-MiniLM-L6-v2")
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        problems += [f"vectors differ: {name}" for name in differing_models(other, Path(folder))]
    documents = [(each / "docs" / "openapi.json").read_bytes() for each in (_THIS, other)]
    if len({hashlib.sha256(document).digest() for document in documents}) > 1:
        problems.append("docs/openapi.json differs")
    ours, theirs = (trace_request(python_path(each), model) for each in (_THIS, other))
    problems += _longer_ways(ours, theirs)
    speeds: dict[str, list[tuple[float, float]]] = {"this": [], "other": []}
    for _ in range(_ROUNDS):
        speeds["this"].append(requests_per_second(_THIS, model))
        speeds["other"].append(requests_per_second(other, model))
    for name, rounds in speeds.items():
        start, rate = (statistics.median(values) for values in zip(*rounds, strict=True))
        print(f"{name}: start {start:.2f} s, {rate:.0f} requests/s of one client")
    print("\n".join(problems) or "the same vectors and API, and no longer way")
    sys.exit(bool(problems))


def _longer_ways(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    problems = []
    for process, name in ((process, name) for process, ways in ours.items() for name in ways):
        now, before = ours[process][name], theirs[process][name]
        print(f"{process} {name}: {now}, other {before}")
        if now > before:
            problems.append(f"{process}: {name} rose from {before} to {now}")
    return problems


if __name__ == "__main__":
    main()
