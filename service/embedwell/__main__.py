"""The `embedwell` command, and `python -m embedwell`."""

import gc

from embedwell.launch.signals import install_signal_handlers


def main() -> None:
    """Run the command, and exit cleanly at a signal from the first moment on.

    In a container, the first process never receives a signal that it does not handle.
    """
    install_signal_handlers()
    gc.disable()  # nothing that an import leaves is garbage: collections were 8 % of the imports
    from embedwell.cli.commands import main

    gc.freeze()
    gc.enable()
    main()


if __name__ == "__main__":
    main()
