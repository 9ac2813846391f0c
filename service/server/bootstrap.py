"""Start a server: open its sockets, then watch its processes."""

import asyncio
import logging
import resource
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from socket import socket

from service.context import ServerContext
from service.engine.protocol.fd_handoff import handoff_pair
from service.http.listeners import claim, listeners
from service.process.logging import configure_logging
from service.process.shared_counters import counters_file
from service.server.watcher import Watcher
from service.settings import Settings

log = logging.getLogger(__name__)

_MIN_OPEN_FILES = 20  # of the first process, and 4 for each HTTP process


def run(settings: Settings, model: Path) -> int:
    """Serve until told to stop; return 0, or 1 when it cannot listen or load the model."""
    configure_logging(settings.log_level)
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= open_files < _MIN_OPEN_FILES + 4 * settings.workers:
        log.error(
            "the server cannot start: it may open %d files only; allow more with ulimit -n 1024",
            open_files,
        )
        return 1
    with ExitStack() as stack:
        try:
            # Before the model is loaded: an address in use is reported at once.
            sockets = _listen(settings, stack)
            request_socket, engine_socket = map(stack.enter_context, handoff_pair())
            counters = stack.enter_context(counters_file(settings.workers + 1))
        except OSError as error:
            log.error("the server cannot start: %s", error)
            return 1
        context = ServerContext(
            settings,
            model,
            port=sockets[0][0].getsockname()[1],
            listener_fds=[[listener.fileno() for listener in group] for group in sockets],
            counters_fd=counters,
            handoff_fd=request_socket.fileno(),
        )
        return asyncio.run(Watcher(context, [*chain(*sockets)], engine_socket.fileno()).run())


def _listen(settings: Settings, stack: ExitStack) -> list[list[socket]]:
    """The sockets of each HTTP process."""
    groups = [claim(settings.host, settings.port)]
    port = groups[0][0].getsockname()[1]
    groups += [listeners(settings.host, port) for _ in range(1, settings.workers)]
    for listener in chain(*groups):
        stack.enter_context(listener)
    return groups
