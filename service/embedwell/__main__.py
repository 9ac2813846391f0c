"""The `embedwell` command, and `python -m embedwell`."""

from embedwell.launch.signals import install_signal_handlers


def main() -> None:
    """Run the command, and exit cleanly at a signal from the first moment on.

    In a container, the first process never receives a signal that it does not handle.
    """
    install_signal_handlers()
    from embedwell.cli.commands import main

    main()


if __name__ == "__main__":
    main()
