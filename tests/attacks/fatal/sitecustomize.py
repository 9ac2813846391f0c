"""Makes an engine process whose PYTHONPATH has this folder crash at one token id, FATAL_TOKEN.

Any text with the token ends the engine by SIGKILL in the forward pass, as the kernel's
out-of-memory killer or a crash in native code would.
"""

import os
import signal
import sys


def _install(token: int) -> None:
    from embedwell_models.loading import token_id_embedder

    class CrashingEmbedder(token_id_embedder.TokenIdEmbedder):
        def encode(self, ids, **options):  # type: ignore[no-untyped-def]
            if any(token in row for row in ids):
                os.kill(os.getpid(), signal.SIGKILL)
            return super().encode(ids, **options)

    token_id_embedder.TokenIdEmbedder = CrashingEmbedder  # type: ignore[misc]


if {"serve", "embedwell.launch.engine_process"} & {*sys.orig_argv} and "FATAL_TOKEN" in os.environ:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a process with threads forks none
    _install(int(os.environ["FATAL_TOKEN"]))
