"""Measure programs that embed one text each: with a shared local server, or each with its model.

They run one after the other, and at once: seconds until the last one ends, and the most memory
(PSS) of all programs and the server.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil

from benchmarks import environments, script
from benchmarks.machine import describe, line
from benchmarks.script import spread, summary, table
from embedwell_client.local_server import LocalServer, local_server
from embedwell_models.hub.sources import resolve

_ENVIRONMENT = "images"  # has sentence-transformers, fastembed and model2vec
_SHARED = "from embedwell_client import Client; Client.local({folder!r}).embed({text!r})"
_OURS = {
    "local server, not started": _SHARED,
    "local server": _SHARED,
    "embedwell's library": (
        "from embedwell_models import Embedder; Embedder.load({model!r}).embed([{text!r}])"
    ),
}
_PEERS = {
    "sentence-transformers": (
        "from sentence_transformers import SentenceTransformer as Model;"
        "Model({folder!r}, device='cpu').encode({text!r})"
    ),
    "fastembed": (
        "from fastembed import TextEmbedding as Model;"
        "[*Model('sentence-transformers/all-MiniLM-L6-v2',"
        " specific_model_path={light!r} + '/onnx').embed([{text!r}])]"
    ),
    "model2vec, a table of words": (
        "from model2vec import StaticModel as Model;"
        "Model.from_pretrained({light!r} + '/table').encode([{text!r}])"
    ),
}
_CONTESTANTS = _OURS | _PEERS
"""A program of each contestant."""
_TEXT = "how are shared objects released"
_SAMPLE = 0.1  # seconds between two measurements of the memory

Turn = dict[str, float]


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run all turns; return the results for the file."""
    folder = str(resolve(args.model))
    names = script.choose(_CONTESTANTS, args.only)
    python, light = _set_up_peers(folder, args.home) if {*names} & {*_PEERS} else ("", "")
    turns: dict[str, list[Turn]] = {}
    with tempfile.TemporaryDirectory() as runtime:
        os.environ["XDG_RUNTIME_DIR"] = runtime
        server = local_server(folder)
        for _ in range(args.rounds):
            for name in names:
                program = _CONTESTANTS[name].format(
                    model=args.model, folder=folder, light=light, text=_TEXT
                )
                command = [python if name in _PEERS else sys.executable, "-c", program]
                for at_once in (1, args.programs):
                    turn = _turn(command, server, name, at_once, args.programs)
                    way = "at once" if at_once > 1 else "in turn"
                    turns.setdefault(f"{name}, {way}", []).append(turn)
        server.stop()
    return {
        "machine": describe(),
        "model": Path(folder).name,
        "programs": args.programs,
        "turns": turns,
    }


def _set_up_peers(folder: str, home: Path) -> tuple[str, str]:
    """Return the interpreter of the peers, and the folder of their models."""
    python, light = str(environments.python(home, _ENVIRONMENT)), str(home / "models" / "light")
    writer = [python, "-m", "benchmarks.peers.light_models", folder, light]
    subprocess.run(writer, check=True, cwd=environments.ROOT)
    return python, light


def _turn(command: list[str], server: LocalServer, name: str, at_once: int, programs: int) -> Turn:
    server.stop()
    if name == "local server":
        subprocess.run(command, check=True)
    with _most_memory(server) as memory:
        begin = time.perf_counter()
        for _ in range(programs // at_once):
            started = [subprocess.Popen(command) for _ in range(at_once)]
            if any(process.wait() for process in started):
                raise SystemExit(f"a program of {name} failed")
        seconds = time.perf_counter() - begin
    return {"seconds": seconds, **memory}


@contextmanager
def _most_memory(server: LocalServer) -> Iterator[dict[str, float]]:
    """Yield the most megabytes of this process's children and the server; filled at the end."""
    memory, ended = {"pss_mb": 0.0}, Event()

    def sample() -> None:
        while not ended.wait(_SAMPLE):
            memory["pss_mb"] = max(memory["pss_mb"], _pss_mb(server))

    thread = Thread(target=sample)
    thread.start()
    try:
        yield memory
    finally:
        ended.set()
        thread.join()


def _pss_mb(server: LocalServer) -> float:
    roots = psutil.Process().children()
    if pid := server.process_id():
        with contextlib.suppress(psutil.Error):
            roots.append(psutil.Process(pid))
    total = 0.0
    for root in roots:
        with contextlib.suppress(psutil.Error):  # it has ended
            for process in (root, *root.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    total += process.memory_full_info().pss / 1e6
    return total


def report(results: Mapping[str, Any]) -> str:
    """Return the numbers as a text table."""
    rows = [
        [
            name,
            spread(summary([turn["seconds"] for turn in turns]), 1),
            spread(summary([turn["pss_mb"] for turn in turns])),
        ]
        for name, turns in results["turns"].items()
    ]
    title = f"{results['programs']} programs, {results['model']}: median (range)"
    return f"{line(results['machine'])}\n{table(title, ['', 's', 'most PSS, MB'], rows)}"


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = script.parser(__doc__, "local")
    parser.add_argument("--programs", type=int, default=20)
    return parser


def main() -> None:
    script.main(command_line(), run, report)


if __name__ == "__main__":
    main()
