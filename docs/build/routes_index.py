"""Write the index of the routes whose modules are imported when they are used.

`python -m docs.build.routes_index` writes service/embedwell/routes/index.py from the routers.
"""

import dataclasses
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fastapi import APIRouter
from starlette.routing import Route

from embedwell import doors
from embedwell.app import create_router, served_models
from embedwell.engine.client.engine_session import EngineSession
from embedwell.engine.wire.shared_counters import SharedCounters
from embedwell.http import error_responses
from embedwell.http.error_responses import ErrorFormat
from embedwell.http.route_traits import RouteTraits
from embedwell.inherited import InheritedModel, InheritedServer
from embedwell.limits.memory_budget import MemoryBudget
from embedwell.routes import __file__ as routes_file
from embedwell.routes.common.lazy_route import RouteEntry
from embedwell.routes.common.router import DirectRoute, direct_routes
from embedwell.routes.common.server_state import ServerState
from embedwell.settings.settings import Settings
from embedwell.telemetry.metrics import build_metrics
from embedwell_models.hub.sources import DEFAULT, resolve

INDEX = Path(routes_file).with_name("index.py")

_START = '''"""Routes by the name of their router, written by `make openapi`."""

from collections.abc import Mapping, Sequence

from embedwell.http.error_responses import {formats}
from embedwell.http.route_traits import RouteTraits
from embedwell.routes.common.lazy_route import RouteEntry

ROUTES: Mapping[str, Sequence[RouteEntry]] = {{
'''
_FORMATS = {id(v): name for name, v in vars(error_responses).items() if isinstance(v, ErrorFormat)}
_END = '''}
"""The routes of each router, except of those at the start of a server."""
'''


def routes() -> Mapping[str, Sequence[RouteEntry]]:
    """Return the routes of each router that is not created at the start."""
    server = _server()
    return {
        name: [*_entries(create_router(name, server))]
        for name in doors.ROUTES
        if name not in doors.ROUTES_AT_START
    }


def module() -> str:
    """Return the text of the module."""
    text = "".join(
        f'    "{name}": ({"".join(f"{_call(entry, unnamed=5)}," for entry in entries)}),\n'
        for name, entries in routes().items()
    )
    formats = ", ".join(sorted(name for name in _FORMATS.values() if f"({name}" in text))
    whole = _START.format(formats=formats) + text + _END
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(INDEX), "-"]
    return subprocess.check_output(command, input=whole, text=True)


def _server() -> ServerState:
    settings = Settings()
    model = InheritedModel(settings, resolve(DEFAULT), 0, rows=1, counters_fd=0, connect_fd=0)
    engine = EngineSession(model.connect_engine, SharedCounters.private())
    models = served_models(InheritedServer(settings, [model], 0, []), [engine])
    return ServerState(
        settings=settings,
        models=models,
        metrics=build_metrics(models),
        started=0,
        shutting_down=lambda: False,
        memory=MemoryBudget(0),
        routes={},
    )


def _entries(router: APIRouter) -> Iterator[RouteEntry]:
    direct = direct_routes(router)
    for route in router.routes:
        assert isinstance(route, Route)
        label = direct[route.path].path if route.path in direct else route.path
        traits, tags = getattr(route, "traits", RouteTraits()), getattr(route, "tags", ())
        yield RouteEntry(
            " ".join(sorted(route.methods or ())),
            route.path,
            traits,
            next(iter(tags), ""),
            label if label != route.path else "",
            label != route.path or (isinstance(route, DirectRoute) and route.include_in_schema),
            "POST" in (route.methods or ()) and route.path not in direct,
        )


def _call(record: RouteEntry | RouteTraits, unnamed: int) -> str:
    """Return the call that creates a record, without defaults.

    unnamed: number of fields whose names are left out.
    """
    arguments = []
    for number, field in enumerate(dataclasses.fields(record)):
        value = getattr(record, field.name)
        name = "" if number < unnamed else f"{field.name}="
        if isinstance(value, ErrorFormat):
            arguments.append(name + _FORMATS[id(value)])
        elif isinstance(value, RouteTraits):
            arguments.append(name + _call(value, unnamed=1))
        elif value != field.default:
            arguments.append(f"{name}{value!r}")
    return f"{type(record).__name__}({', '.join(arguments)})"


if __name__ == "__main__":
    INDEX.write_text(module(), encoding="utf-8")
