"""Write the index of the routes whose modules are imported when they are used.

`python -m docs.build.routes_index` writes service/embedwell/routes/index.py from the routers.
"""

import dataclasses
import itertools
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fastapi import APIRouter
from starlette.routing import Route

from embedwell import doors
from embedwell.app import create_router, served_models
from embedwell.compute.engine_session import EngineSession
from embedwell.compute.request_limits import MemoryBudget
from embedwell.engine.wire.engine_state import SharedCounters
from embedwell.http import error_responses
from embedwell.http.error_responses import ErrorFormat
from embedwell.http.route_traits import RouteTraits
from embedwell.inherited import InheritedModel, InheritedServer
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
from embedwell.routes.common.lazy_route import RouteEntry, entries

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
    text = "".join(f'    "{name}": {_calls(each)},\n' for name, each in routes().items())
    formats = ", ".join(sorted(name for name in _FORMATS.values() if f", {name}," in text))
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


def _calls(described: Sequence[RouteEntry]) -> str:
    """Return the calls that describe routes, one for neighbours that differ only in their paths."""
    groups = itertools.groupby(described, lambda entry: dataclasses.replace(entry, path=""))
    first, *others = (_call(same, [entry.path for entry in group]) for same, group in groups)
    return f"[{','.join(f'*{call}' for call in (first, *others))}]" if others else first


def _call(same: RouteEntry, paths: Sequence[str]) -> str:
    error_format = _FORMATS[id(same.traits.error_format)]
    named = [*_named(same), *_named(same.traits)]
    return f"entries({', '.join([repr(same.methods), error_format, *map(repr, paths), *named])})"


def _named(record: RouteEntry | RouteTraits) -> Iterator[str]:
    """Yield the named arguments of a record: optional fields that differ from their default."""
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        is_named = field.default is not dataclasses.MISSING and field.name != "error_format"
        if is_named and value != field.default:
            yield f"{field.name}={value!r}"


if __name__ == "__main__":
    INDEX.write_text(module(), encoding="utf-8")
