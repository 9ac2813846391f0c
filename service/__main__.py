"""The `embedding-service` command, and `python -m service`."""

from service.signals import heed


def main() -> None:
    """Run the command, and end in good order at a signal, from the first moment on.

    A container's first process that does not heed a signal never gets it.
    """
    heed()
    from service.cli import main

    main()


if __name__ == "__main__":
    main()
