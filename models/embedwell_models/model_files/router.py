"""Router of sentence-transformers: different modules for queries and for documents."""

from collections.abc import Sequence
from pathlib import Path

from embedwell_models.config.json_config import JsonConfig

ROUTER = "Router"
FILE = "router_config.json"
_ROUTES = {"query", "document"}
_PARAMETERS = {"default_route", "allow_empty_key", "route_mappings"}


def read_routes(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Read router_config.json: route -> class and path of each module.

    Raises ModelError for routes other than queries and documents, and for parameters that choose
    another route than the documents' for a text without a task.
    """
    options = JsonConfig(folder / FILE)
    options.refuse_unknown({"types", "structure", "parameters"})
    options.nested("parameters").refuse_unknown(_PARAMETERS)
    kinds, structure = options["types"], options["structure"]
    if set(structure) != _ROUTES:
        raise options.unsupported("structure", sorted(structure), sorted(_ROUTES))
    routes = {route: _modules(options, kinds, paths) for route, paths in structure.items()}
    if routes["query"] != routes["document"]:
        _check_parameters(options.nested("parameters"), first_route=next(iter(routes)))
    return routes


def _check_parameters(parameters: JsonConfig, first_route: str) -> None:
    parameters.require("route_mappings", None, {})
    fallback = first_route if parameters.get("allow_empty_key", True) else "document"
    default_route = parameters.get("default_route", fallback)
    if default_route != "document":
        raise parameters.unsupported("default_route", default_route, "document")


def _modules(
    options: JsonConfig, kinds: dict[str, str], paths: Sequence[str]
) -> list[tuple[str, str]]:
    if missing := [path for path in paths if path not in kinds]:
        raise options.unsupported("structure", missing, sorted(kinds))
    return [(kinds[path], path) for path in paths]
