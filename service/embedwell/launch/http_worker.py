"""HTTP process of a server: `python -m embedwell.launch.http_worker`."""

import gc

from embedwell.launch.supervised import HTTP_PROCESS, name_process


def main() -> None:
    """Import the HTTP process without garbage collections, and run it."""
    name_process(HTTP_PROCESS)
    gc.disable()  # nothing that an import leaves is garbage: collections were 8 % of the imports
    from embedwell.launch.http_process import main

    gc.freeze()  # the next collections pass over what is imported
    gc.enable()
    main()


if __name__ == "__main__":
    main()
