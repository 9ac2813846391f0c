"""The `embedwell` command, and `python -m embedwell`."""

from embedwell.process.signals import install_signal_handlers


def main() -> None:
    """Run the command, and end in good order at a signal, from the first moment on.

    A container's first process that does not handle a signal never gets it.
    """
    install_signal_handlers()
    from embedwell.cli.commands import main

    main()


if __name__ == "__main__":
    main()
