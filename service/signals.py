"""What a signal to stop does to the processes of this program."""

import signal
import sys
from typing import Any


def heed(status: int | None = None) -> None:
    """Let this process end in good order, which is by SystemExit. uvicorn, while it runs, takes the
    signals itself, and raises them again when it has stopped: by then there is nothing left.

    status: its own; by default, as in a shell, 128 and the number of the signal.
    """

    def leave(number: int, _: Any) -> None:
        sys.exit(128 + number if status is None else status)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    # A terminal that closes, unless nohup has said that this is nothing to stop for.
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
