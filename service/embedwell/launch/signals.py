"""Signals to stop a process, and the hangup of its terminal; no large imports."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def end_at_signals() -> None:
    """End this process at a termination signal, without a cleanup."""
    _handle_signals(_end)


def install_signal_handlers(status: int | None = None) -> None:
    """Raise SystemExit at a termination signal, so that this process cleans up.

    While uvicorn runs, it handles the signals itself, and raises them again once it has stopped. A
    second signal ends the process immediately.

    status: exit status; by default 128 plus the number of the signal, as in a shell.
    """

    def exit_in_order(number: int, _: Any) -> None:
        for again in (signal.SIGTERM, signal.SIGINT):
            signal.signal(again, _end)
        sys.exit(128 + number if status is None else status)

    _handle_signals(exit_in_order)


def was_signalled() -> bool:
    """Whether a signal after `install_signal_handlers` raised SystemExit.

    A finalizer or a compiled library can lose the exception, so that this process goes on.
    """
    return signal.getsignal(signal.SIGTERM) is _end


def note_hangups() -> None:
    """Note SIGHUP instead of ending at it, unless it is ignored, as under nohup."""
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, _: _hangups.append(number))


def hangup_was_noted() -> bool:
    """Whether there was a SIGHUP after `note_hangups`."""
    return bool(_hangups)


_hangups: list[int] = []


def _handle_signals(handler: Callable[[int, Any], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)
    # SIGHUP is sent when the terminal closes; under nohup it is ignored.
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))


def _end(number: int, _: Any) -> None:
    os._exit(128 + number)
