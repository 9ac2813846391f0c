"""Virtual environments of the peers, created on first use, and variables of their processes."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
_REQUIREMENTS = Path(__file__).parent / "requirements"
_STAMP = "installed.txt"
OFFLINE = {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}

# llama.cpp comes as source. Without these options it builds its tests, fetches a web page for its
# server, and starts a compiler for each file at once.
_CORES = str(len(os.sched_getaffinity(0)))
_BUILD = {
    "CMAKE_ARGS": "-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF "
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "CMAKE_BUILD_PARALLEL_LEVEL": _CORES,
    "LLAMA_CPP_BUILD_JOBS": _CORES,
}


class Unavailable(Exception):
    """A peer is not available here; the message says why."""


def python(home: Path, name: str) -> Path:
    """Return the interpreter of an environment; raises Unavailable if it cannot be installed."""
    folder = home / "venvs" / name
    wanted = "".join(file.read_text() for file in _files(name))
    stamp = folder / _STAMP
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing {name} into {folder}", file=sys.stderr, flush=True)
        _install(folder, name)
        stamp.write_text(wanted)
    return folder / "bin" / "python"


def _files(name: str) -> list[Path]:
    # Packages in the second file require packages that are not needed or that break them.
    files = [_REQUIREMENTS / f"{name}.txt", _REQUIREMENTS / f"{name}.no-deps.txt"]
    return [file for file in files if file.exists()]


def _install(folder: Path, name: str) -> None:
    if not (folder / "bin" / "python").exists():
        _run(name, sys.executable, "-m", "venv", str(folder))
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    for file in _files(name):
        more = ["--no-deps"] if file.name.endswith(".no-deps.txt") else []
        _run(name, *pip, *more, "-r", str(file))


def _run(name: str, *command: str) -> None:
    try:
        subprocess.run(command, check=True, stdout=sys.stderr, env=_BUILD | os.environ)
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"{name} could not be installed: {error}") from None


def threads(count: int) -> dict[str, str]:
    """Return environment variables that limit numerical libraries to this number of threads."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(count))
