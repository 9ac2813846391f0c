"""Start a server: open its sockets, place its engines, then watch its processes."""

import asyncio
import errno
import logging
import os
import resource
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from embedwell.engine.wire.engine_sockets import handoff_pair
from embedwell.engine.wire.engine_state import counters_file
from embedwell.inherited import InheritedModel, InheritedServer, counter_rows
from embedwell.launch.logging import configure_logging
from embedwell.launch.processes import forked, preload
from embedwell.launch.reload import ModelSource, PlacedModels
from embedwell.launch.watcher import Watcher
from embedwell.settings.setting_types import is_loopback
from embedwell.settings.settings import BATCH_LOCK_FILE, Settings
from embedwell_models.encoder.cpus import (
    SYSTEM_DEVICES,
    allowed_cpus,
    available_cpus,
    node_cpus,
    within_quotas,
)
from embedwell_models.encoder.device import may_be_gpu

log = logging.getLogger(__name__)

_MAX_DEFAULT_WORKERS = 8  # each takes about 50 MB

# Descriptors of the first process; it needs 4 more for each HTTP process, and 6 for each engine.
_MIN_OPEN_FILES = 14

_BACKLOG = 2048  # connections not accepted yet; the system may allow fewer
# Errors for an address family that the machine lacks, such as localhost without IPv6.
_ADDRESS_ERRORS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def run(
    settings: Settings,
    models: PlacedModels,
    system: Path = SYSTEM_DEVICES,
    read_anew: Callable[[], PlacedModels] | None = None,
) -> int:
    """Serve until told to stop; return 0, or 1 when it cannot listen or load the model.

    models: the settings of each model and its folder, the default model first.
    system: where the system describes its processors.
    read_anew: reads the models file, if there is one, for SIGHUP.
    """
    configure_logging(settings.log_level, settings.log_format)
    gpu = "cuda" in settings.devices if settings.devices else may_be_gpu(settings.device)
    workers = settings.workers or default_workers(available_cpus(), gpu)
    settings = settings.model_copy(update={"workers": workers})
    models = _with_workers(models, workers)
    if not _may_open_enough_files(settings, len(models)):
        return 1
    with ExitStack() as stack:
        try:
            # Listen before the model is loaded, to report an address in use immediately.
            listeners = open_listeners(settings, stack)
            settings = listeners.settings
            contexts, engine_fds = open_model_contexts(settings, models, stack, system)
            if settings.batch_folder is not None:
                settings.batch_folder.mkdir(parents=True, exist_ok=True)
                # Otherwise an HTTP process could not.
                (settings.batch_folder / BATCH_LOCK_FILE).touch()
        except OSError as error:
            log.error("the server cannot start: %s", error)
            return 1
        context = InheritedServer(
            settings,
            contexts,
            port=listeners.port,
            listener_fds=[[each.fileno() for each in group] for group in listeners.groups],
            handed_over=listeners.handed_over,
        )
        source = read_anew and ModelSource(
            lambda: _with_workers(read_anew(), workers), partial(open_model_contexts, settings)
        )
        watcher = Watcher(
            context,
            [*dict.fromkeys(chain(*listeners.groups))],
            engine_fds,
            launch=forked,
            preload=preload,
            source=source,
        )
        return asyncio.run(watcher.run())


def _with_workers(models: PlacedModels, workers: int) -> PlacedModels:
    return [(each.model_copy(update={"workers": workers}), folder) for each, folder in models]


def _may_open_enough_files(settings: Settings, models: int) -> bool:
    """Return whether the limit of open files suffices; log an error if not."""
    engines = max(models, len(settings.engine_names))
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not 0 <= open_files < _MIN_OPEN_FILES + 4 * settings.workers + 6 * engines:
        return True
    log.error(
        "the server cannot start: it may open only %d files; raise the limit with ulimit -n 1024",
        open_files,
    )
    return False


def default_workers(cpus: int, gpu: bool, platform: str = sys.platform) -> int:
    """Return the number of HTTP processes that keep an engine busy with requests of short texts.

    One process serves as many of them a second as about four processors with AMX compute. A GPU
    leaves most processors to HTTP. Only Linux spreads new connections over processes.
    """
    if platform != "linux":
        return 1
    return min(max(cpus // (2 if gpu else 4), 1), _MAX_DEFAULT_WORKERS)


def open_model_contexts(
    settings: Settings,
    models: Sequence[tuple[Settings, Path]],
    stack: ExitStack,
    system: Path = SYSTEM_DEVICES,
) -> tuple[list[InheritedModel], list[int]]:
    """Open each engine's counters and hand-off sockets, until the stack is closed.

    Return the contexts, and the engines' ends of the socket pairs that hand over connections.
    Raises OSError.
    """
    contexts, engine_fds, rows = [], [], counter_rows(settings)
    for index, (options, folder, cpus) in enumerate(place_engines(settings, models, system)):
        requests, engine = map(stack.enter_context, handoff_pair())
        counters = stack.enter_context(counters_file(rows))
        fd = requests.fileno()
        contexts.append(InheritedModel(options, folder, index, rows, counters, fd, cpus))
        engine_fds.append(engine.fileno())
    return contexts, engine_fds


@dataclass(frozen=True)
class Listeners:
    """The listening sockets of a server.

    settings: those of the server, with the addresses on which it listens.
    groups: the sockets of each HTTP process.
    handed_over: whether systemd or launchd has opened the sockets.
    """

    settings: Settings
    groups: list[list[socket.socket]]
    handed_over: bool

    @property
    def port(self) -> int:
        """The port; 0 without TCP."""
        tcp = [each for each in self.groups[0] if each.family != socket.AF_UNIX]
        return tcp[0].getsockname()[1] if tcp else 0


def open_listeners(settings: Settings, stack: ExitStack) -> Listeners:
    """Open the sockets of each HTTP process, until the stack is closed; raises OSError.

    Sockets that systemd or launchd hands over take the place of those in the settings.
    """
    if handed_over := _handed_over():
        groups = [handed_over] * settings.workers
        return Listeners(_with_addresses(settings, handed_over), groups, handed_over=True)
    groups = [list[socket.socket]() for _ in range(settings.workers)]
    if settings.listens_on_tcp:
        groups = _open_tcp(settings, stack)
    if settings.unix_socket is not None:
        from embedwell.launch.unix_socket import UnixListener  # which few servers need

        shared = stack.enter_context(UnixListener(settings.unix_socket, _BACKLOG))
        groups = [[*group, shared] for group in groups]
    return Listeners(settings, groups, handed_over=False)


def _handed_over() -> list[socket.socket]:
    if sys.platform != "darwin" and "LISTEN_PID" not in os.environ:
        return []
    from embedwell.launch.socket_activation import handed_over_listeners  # which few servers need

    return handed_over_listeners()


def _with_addresses(settings: Settings, handed_over: Sequence[socket.socket]) -> Settings:
    """Return the settings with the addresses of these sockets in place of their own."""
    paths = [each.getsockname() for each in handed_over if each.family == socket.AF_UNIX]
    tcp = [each.getsockname()[:2] for each in handed_over if each.family != socket.AF_UNIX]
    # Of several, the one that other machines may reach decides whether a key is needed.
    host, port = max(tcp, key=lambda address: not is_loopback(address[0]), default=("", 0))
    path = Path(os.fsdecode(paths[0]).replace("\0", "@")) if paths else None
    return settings.model_copy(update={"host": host, "port": port, "unix_socket": path})


def _open_tcp(settings: Settings, stack: ExitStack) -> list[list[socket.socket]]:
    groups = [open_exclusive(settings.host, settings.port)]
    port = groups[0][0].getsockname()[1]
    groups += [open_shared(settings.host, port) for _ in range(1, settings.workers)]
    for listener in chain(*groups):
        stack.enter_context(listener)
    return groups


def open_exclusive(host: str, port: int) -> list[socket.socket]:
    """Listen on a port that no other server uses, on any free port for 0; raises OSError."""
    try:
        sockets = _open_sockets(host, port)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # which repeats the address
        raise OSError(
            f"cannot listen on {host} port {port}: {reason}; choose others with --host or --port"
        ) from None
    for listener in sockets:
        # SO_REUSEPORT set before bind would share the port with another server.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return sockets


def open_shared(host: str, port: int) -> list[socket.socket]:
    """Listen on the port of `open_exclusive` for one more HTTP process; raises OSError.

    The system distributes new connections over the processes (SO_REUSEPORT). With one shared socket
    most connections of a burst would go to the process that is awake.
    """
    return _open_sockets(host, port, reuse_port=True)


def _open_sockets(host: str, port: int, reuse_port: bool = False) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    with ExitStack() as opened:
        for family, (name, _, *rest) in _addresses(host):
            address = (name, sockets[0].getsockname()[1] if sockets else port, *rest)
            try:
                listener = socket.create_server(
                    address,
                    family=family,
                    backlog=_BACKLOG,
                    reuse_port=reuse_port,
                    dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
                )
            except OSError as error:
                if error.errno not in _ADDRESS_ERRORS:
                    raise
            else:
                sockets.append(opened.enter_context(listener))
        opened.pop_all()
    if not sockets:
        raise OSError(errno.EADDRNOTAVAIL, "this machine has no such address")
    return sockets


def _addresses(host: str) -> list[tuple[int, tuple[Any, ...]]]:
    infos = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, *_, address in infos))


PlacedEngine = tuple[Settings, Path, Sequence[int]]
"""An engine's settings, the folder of its model, and the processors that it is bound to, if any."""


def place_engines(
    settings: Settings, models: Sequence[tuple[Settings, Path]], system: Path = SYSTEM_DEVICES
) -> list[PlacedEngine]:
    """Return the engines: one for each model, or for each of several devices of the only model.

    Raises OSError for a NUMA node without a processor that this process may use.

    system: where the system describes its processors.
    """
    if not settings.devices:
        return [(options, folder, ()) for options, folder in models]
    [(options, folder)] = models
    devices = settings.devices.split(",")
    engines: list[PlacedEngine] = []
    for device in devices:
        kind, _, number = device.partition(":")
        if kind == "cpu":
            cpus = node_cpus(int(number), system) if number else ()
            share = len(cpus or allowed_cpus()) // devices.count(device)
            threads = settings.threads or within_quotas(share, len(devices))
            placed = options.model_copy(update={"device": kind, "threads": threads})
            engines.append((placed, folder, cpus))
        else:
            engines.append((options.model_copy(update={"device": device}), folder, ()))
    return engines
