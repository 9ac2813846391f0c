"""Signal handlers of this program's processes."""

import os
import signal
import sys
from typing import Any


def install_signal_handlers(status: int | None = None) -> None:
    """Raise SystemExit at a termination signal, so that this process cleans up.

    While uvicorn runs, it handles the signals itself, and raises them again once it has stopped. A
    second signal ends the process immediately.

    status: exit status; by default 128 plus the number of the signal, as in a shell.
    """

    def exit_in_order(number: int, _: Any) -> None:
        for again in (signal.SIGTERM, signal.SIGINT):
            signal.signal(again, exit_at_once)
        sys.exit(128 + number if status is None else status)

    def exit_at_once(number: int, _: Any) -> None:
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, exit_in_order)
    # SIGHUP is sent when the terminal closes; under nohup it is ignored.
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
