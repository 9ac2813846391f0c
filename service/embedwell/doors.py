"""Commands, routes and bodies by name: those of this distribution, and of packages that extend it.

A name stands for `package.module:attribute`, which is imported when it is used. Other packages add
theirs by entry points: docs/developers/extend.md.
"""

import pkgutil
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

COMMANDS: Mapping[str, str] = {
    "serve": "embedwell.cli.serve:serve",
    "pull": "embedwell.cli.model_commands:pull",
    "models": "embedwell.cli.model_commands:models",
    "inspect": "embedwell.cli.model_commands:inspect",
    "info": "embedwell.cli.model_commands:info",
    "local": "embedwell_desktop.local:local",
    "service": "embedwell_desktop.service:service",
    "embed": "embedwell_bulk.embed:embed",
    "evaluate": "embedwell_lab.evaluate:evaluate",
    "plot": "embedwell_lab.plot:plot",
    "convert": "embedwell_classic_service.convert:convert",
    "compress": "embedwell_classic_service.compress:compress",
    "train": "embedwell_classic_service.train:train",
}
"""Commands of click, in the order of --help: those that most people need first."""

ROUTES: Mapping[str, str] = {
    "playground": "embedwell.playground:router",  # before the others' route of /
    "openapi": "embedwell.routes.openapi_document:router",
    "embed": "embedwell.routes.embed:router",
    "embed_sparse": "embedwell.routes.embed_sparse:router",
    "tokens": "embedwell.routes.tokens:router",
    "positions": "embedwell.routes.positions:router",
    "similarity": "embedwell.routes.similarity:router",
    "words": "embedwell_classic_service.word_search:router",
    "multi_vector": "embedwell_vendors.multi_vector:router",
    "rerank": "embedwell.routes.rerank:router",
    "score": "embedwell_vendors.score:router",
    "nim": "embedwell_vendors.nim:router",
    "classify": "embedwell.routes.classify:router",
    "decisions": "embedwell_decide_service.decisions:router",
    "system_one": "embedwell_decide_service.system_one:router",
    "zero_shot": "embedwell_decide_service.zero_shot:router",
    "tokenize": "embedwell.routes.tokenize:router",
    "openai": "embedwell.routes.openai:router",
    "models": "embedwell.routes.models:router",
    "azure": "embedwell_vendors.azure:router",
    "cohere": "embedwell.routes.cohere:router",
    "voyage": "embedwell_vendors.voyage:router",
    "cohere_tokenize": "embedwell.routes.tokenize:cohere_router",
    "vllm": "embedwell_vendors.vllm:router",
    "ollama": "embedwell.routes.ollama:router",
    "ollama_models": "embedwell.routes.ollama_models:router",
    "admin": "embedwell.routes.models:admin_router",
    "feature_extraction": "embedwell_vendors.feature_extraction:router",
    "weaviate": "embedwell_vendors.weaviate:router",
    "status": "embedwell.routes.status:router",
    "info": "embedwell.routes.info:router",
    "metrics": "embedwell.routes.status:metrics_router",
    "unknown_model": "embedwell.routes.models:unknown_model_router",
    "root": "embedwell.routes.status:root_router",
    "sagemaker": "embedwell_vendors.sagemaker:router",
    "batches": "embedwell_batches.routes:router",
}
"""Functions that create a router for a ServerState, in the order in which errors name the routes.

A path that several routers have is the first one's.
"""

ROUTES_AT_START = frozenset({"playground", "embed", "status", "metrics", "root"})
"""Routers that a server creates at its start, because their paths depend on its settings or models,
or because most servers need them. The modules of others are imported when one of their routes is
used: embedwell.routes.index has these routes.
"""

EMBEDDINGS_BODY = "embedwell_vendors.embeddings:EmbeddingsRequest"
RERANK_BODY = "embedwell_vendors.rerank:RerankRequest"
"""The bodies of /v1/embeddings and /rerank that have the fields of further vendors."""

TRACING = "embedwell_otel.tracing:RequestSpans"
METRICS_EXPORT = "embedwell_otel.metrics:MetricsExport"
"""Exports of telemetry, if settings enable them."""

_COMMANDS, _ROUTES = "embedwell.commands", "embedwell.routes"  # groups of entry points


class ExtensionError(Exception):
    """Another package's command or router cannot be loaded; the message names the package."""


def command_names() -> list[str]:
    """List all commands, those of other packages last; reads the environment's entry points."""
    return list(dict.fromkeys([*COMMANDS, *(entry.name for entry in _entry_points(_COMMANDS))]))


def load_command(name: str) -> Any:
    """Import a command; return None for an unknown name. Raises ExtensionError.

    Entry points are only read for names that this distribution does not have.
    """
    if name in COMMANDS:
        return load(COMMANDS[name])
    entries = (entry for entry in _entry_points(_COMMANDS) if entry.name == name)
    return next(map(_load_entry, entries), None)


def import_routes() -> None:
    """Import the modules of ROUTES_AT_START."""
    for name in ROUTES_AT_START:
        load(ROUTES[name])


def load_extension_routes() -> Iterator[tuple[str, Any]]:
    """Import the functions of other packages, with the packages' names; raises ExtensionError."""
    for entry in _entry_points(_ROUTES):
        yield _package(entry), _load_entry(entry)


def load(name: str) -> Any:
    """Import what a name `package.module:attribute` stands for."""
    return pkgutil.resolve_name(name)


def _entry_points(group: str) -> "list[EntryPoint]":
    from importlib.metadata import entry_points  # most commands need it for nothing else

    return sorted(entry_points(group=group), key=lambda entry: entry.name)


def _package(entry: "EntryPoint") -> str:
    return entry.dist.name if entry.dist else "an unknown package"


def _load_entry(entry: "EntryPoint") -> Any:
    try:
        return entry.load()
    except Exception as error:
        package = _package(entry)
        raise ExtensionError(
            f"{entry.group} {entry.name!r} of {package} ({entry.value}) cannot be imported: "
            f"{error!r}; repair or uninstall {package}"
        ) from error
