"""Put on PYTHONPATH, gives an engine process a real weakness: a token of which it dies at once.

FATAL_TOKEN is the token's id. Any text that holds it ends the engine by SIGKILL in the middle of
the forward pass, as the kernel's out-of-memory killer or a crash in native code would.
"""

import os
import signal
import sys


def _weaken(token: int) -> None:
    import models.embedder

    class Fatal(models.embedder.Embedder):
        def encode(self, ids, **options):  # type: ignore[no-untyped-def]
            if any(token in row for row in ids):
                os.kill(os.getpid(), signal.SIGKILL)
            return super().encode(ids, **options)

    models.embedder.Embedder = Fatal  # type: ignore[misc]


if "service.engine" in sys.orig_argv and "FATAL_TOKEN" in os.environ:
    _weaken(int(os.environ["FATAL_TOKEN"]))
