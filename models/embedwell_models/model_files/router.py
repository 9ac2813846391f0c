"""Router of sentence-transformers: different modules for queries and for documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from embedwell_models.config.json_config import JsonConfig

ROUTER = "Router"
FILE = "router_config.json"
QUERY, DOCUMENT = "query", "document"
_PARAMETERS = {"default_route", "allow_empty_key", "route_mappings"}


@dataclass(frozen=True)
class Routes:
    """The modules of a Router. modules: by route, the class and path of each module.

    default: the route of a text without a task.
    """

    modules: Mapping[str, Sequence[tuple[str, str]]]
    default: str

    @property
    def differ(self) -> bool:
        """Whether queries have other modules than documents."""
        return self.modules[QUERY] != self.modules[DOCUMENT]


def read_routes(folder: Path) -> Routes:
    """Read router_config.json.

    Raises ModelError for routes other than queries and documents, and for parameters that choose
    routes by the kinds of inputs.
    """
    options = JsonConfig(folder / FILE)
    options.refuse_unknown({"types", "structure", "parameters"})
    parameters = options.nested("parameters")
    parameters.refuse_unknown(_PARAMETERS)
    kinds, structure = options["types"], options["structure"]
    if set(structure) != {QUERY, DOCUMENT}:
        raise options.unsupported("structure", sorted(structure), [DOCUMENT, QUERY])
    routes = {route: _modules(options, kinds, paths) for route, paths in structure.items()}
    if routes[QUERY] == routes[DOCUMENT]:
        return Routes(routes, DOCUMENT)
    parameters.require("route_mappings", None, {})
    fallback = next(iter(routes)) if parameters.get("allow_empty_key", True) else DOCUMENT
    default = parameters.get("default_route", fallback)
    if default not in routes:
        raise parameters.unsupported("default_route", default, [*routes])
    return Routes(routes, default)


def refuse_default_query(folder: Path, routes: Routes) -> None:
    """Raise ModelError if a text without a task is a query."""
    if routes.default != DOCUMENT:
        parameters = JsonConfig(folder / FILE).nested("parameters")
        raise parameters.unsupported("default_route", routes.default, DOCUMENT)


def _modules(
    options: JsonConfig, kinds: dict[str, str], paths: Sequence[str]
) -> list[tuple[str, str]]:
    if missing := [path for path in paths if path not in kinds]:
        raise options.unsupported("structure", missing, sorted(kinds))
    return [(kinds[path], path) for path in paths]
