"""Router of sentence-transformers: different modules for queries and for documents."""

from collections.abc import Sequence
from pathlib import Path

from embedwell_models.config.json_config import JsonConfig

ROUTER = "Router"
_ROUTES = {"query", "document"}


def read_routes(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Read router_config.json: route -> class and path of each module.

    Raises ModelError for routes other than queries and documents.
    """
    options = JsonConfig(folder / "router_config.json")
    kinds, structure = options["types"], options["structure"]
    if set(structure) != _ROUTES:
        raise options.unsupported("structure", sorted(structure), sorted(_ROUTES))
    return {route: _modules(options, kinds, paths) for route, paths in structure.items()}


def _modules(
    options: JsonConfig, kinds: dict[str, str], paths: Sequence[str]
) -> list[tuple[str, str]]:
    if missing := [path for path in paths if path not in kinds]:
        raise options.unsupported("structure", missing, sorted(kinds))
    return [(kinds[path], path) for path in paths]
