"""How the processes of this program end at a signal."""

import os
import signal
import sys
from typing import Any


def install_signal_handlers(status: int | None = None) -> None:
    """End this process by SystemExit at a signal to stop, so that it cleans up after itself.

    uvicorn, while it runs, takes the signals itself, and raises them again when it has stopped: by
    then there is nothing left. One more signal ends the process at once.

    status: of the exit; by default, as in a shell, 128 and the number of the signal.
    """

    def leave(number: int, _: Any) -> None:
        for again in (signal.SIGTERM, signal.SIGINT):
            signal.signal(again, hurry)
        sys.exit(128 + number if status is None else status)

    def hurry(number: int, _: Any) -> None:
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    # A terminal that closes, unless nohup has said that this is nothing to stop for.
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
