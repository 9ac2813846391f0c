"""One more HTTP process of a server: `python -m service.worker`, started by the first."""

import asyncio
import sys

from service.app import create_app
from service.engine.link import Link
from service.heap import freeze
from service.home import Home
from service.http.listeners import listeners
from service.http.server import Server, config, vital
from service.log import configure
from service.signals import heed


def main() -> None:
    """Serve on the same port until the first process says to stop, or is no more."""
    home, row = Home.read(sys.stdin.buffer.readline())
    settings = home.settings
    configure(settings.log_level)
    heed(0)

    async def follow() -> None:
        told = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), told.set)
        await told.wait()
        loop.remove_reader(sys.stdin.fileno())  # at its end it stays readable
        server.should_exit = True

    def fail() -> None:
        server.fail()

    board = home.board(row)
    link = Link(home.ask, board, lambda _: freeze(), stall=settings.stall)
    background = [vital(link.run, fail), follow]
    app = create_app(home, link, background, lambda: server.should_exit)
    server = Server(config(settings, app), settings.drain_delay)
    server.run(sockets=listeners(settings.host, home.port))


if __name__ == "__main__":
    main()
