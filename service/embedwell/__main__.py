"""The `embedwell` command, and `python -m embedwell`."""

import gc
import os
import sys

from embedwell.launch.signals import end_at_signals, install_signal_handlers


def open_standard_streams() -> None:
    """Open a null device for each standard stream that is closed.

    The sockets of a server would get their numbers, which the processes that it forks replace.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number


def prepare_processes() -> None:
    """Set the variables of a server's processes, before numpy reads them at its import."""
    from embedwell.launch.processes import ENVIRONMENT

    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def main() -> None:
    """Run the command, and exit cleanly at a signal from the first moment on.

    In a container, the first process never receives a signal that it does not handle.
    """
    end_at_signals()  # an exception could be lost during imports, and there is nothing to clean up
    if sys.argv[1:2] == ["serve"]:
        open_standard_streams()
        prepare_processes()
    gc.disable()  # nothing that an import leaves is garbage: collections were 8 % of the imports
    from embedwell.cli.commands import main

    gc.freeze()
    gc.enable()
    install_signal_handlers()
    main()


if __name__ == "__main__":
    main()
