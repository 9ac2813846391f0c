"""`embedwell local`: the address of the server that all programs of a user share."""

import json
import logging

import click

from embedwell_models.hub.sources import DEFAULT


@click.command()
@click.argument("model", default=DEFAULT)
@click.option("--json", "as_json", is_flag=True, help="Print the socket and the model's URL.")
@click.option("--stop", is_flag=True, help="Stop the server instead.")
def local(model: str, as_json: bool, stop: bool) -> None:
    """Start your local server, and print its Unix socket.

    It is printed once the server has MODEL. A server that runs is not started again; it ends after
    15 minutes without a request. All programs of a user share it: each model, by a name or a path,
    has an address below /m/, is loaded with the first request, and is unloaded when idle. A model
    that has been fetched needs no network. A server of another version is replaced while no model
    is loaded.

    The socket and the log are in $XDG_RUNTIME_DIR/embedwell, or in embedwell-UID in the folder for
    temporary files. The server takes EMBEDWELL_CACHE, _DEVICE, _DTYPE, _ISA and _THREADS from the
    environment of the program that starts it, and no other setting.
    """
    from embedwell_client import RequestFailed

    logging.basicConfig(format="%(message)s")
    try:
        from embedwell_client.local_server import local_server

        server = local_server(model)
        if stop:
            server.stop()
            return
        server.connect()
    except ImportError as error:  # on Windows
        raise click.ClickException(str(error)) from None
    except RequestFailed as error:
        raise click.ClickException(error.message) from None
    address = {"socket": str(server.socket), "url": server.url}
    click.echo(json.dumps(address) if as_json else server.socket)
