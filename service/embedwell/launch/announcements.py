"""Messages to the operator: that the server is ready, with which models, and how to ask it."""

import logging
import shlex
from collections.abc import Mapping
from typing import Any

from embedwell import __version__
from embedwell.inherited import InheritedServer
from embedwell.launch.logging import announce
from embedwell.launch.supervisor import Report
from embedwell.settings.setting_types import address_to_ask, is_loopback, is_wildcard
from embedwell.settings.settings import Settings
from embedwell_models.outputs.names import DECISION, DENSE, LABELS, MULTI, SPARSE

log = logging.getLogger(__name__)

_INPUT = '{"inputs": "Hello, world"}'
_QUESTION = '{"type": "predicate", "instructions": "The customer wants a refund."}'
_EXAMPLES: Mapping[str, tuple[str, str]] = {
    DENSE: ("/embed", _INPUT),
    MULTI: ("/embed", _INPUT),
    SPARSE: ("/embed_sparse", _INPUT),
    DECISION: ("/v1/decisions", f'{{"input": "Refund me.", "questions": [{_QUESTION}]}}'),
    LABELS: (
        "/zero-shot-classification",
        '{"inputs": "My phone!", "parameters": {"candidate_labels": ["mobile", "billing"]}}',
    ),
}
"""A route and a body for each output, of which the first that a model has is shown."""

_NO_KEY = (
    "warning: there is no key, and whoever can connect to this port can send requests; set "
    "EMBEDWELL_API_KEY, unless only clients that you trust can connect\n"
)


class Announcements:
    """Greets when all kept models are ready, and logs each engine that is replaced."""

    def __init__(self, context: InheritedServer, greeted: bool = False) -> None:
        """greeted: whether the operator knows already that the server is ready."""
        self._context = context
        self._restarts = [-1] * len(context.models)  # of the latest engine that was ready
        self._engines: dict[int, Mapping[str, Any]] = {}  # descriptions, by the model's index
        self.greeted, self._stopping = greeted, False

    def note_stopping(self) -> None:
        """Note that the server stops, after which nobody is greeted."""
        self._stopping = True

    def note_engine_ready(self, report: Report) -> None:
        """Note the report of an HTTP process that an engine is ready."""
        index, restarts = report["model"], report["restarts"]
        if restarts <= self._restarts[index]:
            return
        if self._restarts[index] >= 0:
            several = len(self._context.models) > 1
            name = f" of {self._context.models[index].label}" if several else ""
            log.warning("engine%s replaced (restart %d)", name, restarts)
        self._restarts[index] = restarts
        self._engines[index] = report["engine"]
        self.greet_if_ready()

    def greet_if_ready(self) -> None:
        """Greet, unless a kept model is not ready, the server stops, or it was done before."""
        kept = [m.index for m in self._context.models if m.settings.keep == "always"]
        ready = [index in self._engines for index in kept]
        # Of several devices one is enough, because another may have failed.
        enough = any if self._context.settings.engine_names else all
        if not (self.greeted or self._stopping) and enough(ready):
            self.greeted = True
            settings = self._context.settings
            text = greeting(self._context, self._engines)
            announce(text, logging.INFO, settings.log_format)
            is_open = settings.listens_on_tcp and not is_loopback(settings.host)
            if settings.api_key is None and is_open:
                announce(_NO_KEY, logging.WARNING, settings.log_format)


def greeting(context: InheritedServer, engines: Mapping[int, Mapping[str, Any]]) -> str:
    """The address of the server, its models, and an example request.

    engines: descriptions of those that are ready, by the index of the model.
    """
    settings = context.settings
    names = settings.engine_names
    listed = context.models[:1] if names else context.models
    models = [_model(model.settings, engines.get(model.index)) for model in listed]
    pages = ""
    if settings.listens_on_tcp:
        url = _url(context)
        playground = f"playground: {url}/playground   " if settings.playground else ""
        pages = f"{playground}API: {url}/docs\n"
    return (
        f"\nembedwell {__version__} listens on {_addresses(context)}\n"
        f"{pages}{''.join(models)}{_example_calls(context, engines.get(0))}"
    )


def _url(context: InheritedServer) -> str:
    settings = context.settings
    return f"http://{address_to_ask(settings.host)}:{context.port}{settings.root_path}"


def _addresses(context: InheritedServer) -> str:
    settings, addresses = context.settings, []
    if settings.listens_on_tcp:
        others = " and every other address of this machine" if is_wildcard(settings.host) else ""
        addresses.append(_url(context) + others)
    if settings.unix_socket is not None:
        addresses.append(f"the Unix socket {settings.unix_socket}")
    return " and ".join(addresses)


def _example_calls(context: InheritedServer, engine: Mapping[str, Any] | None) -> str:
    """A command for each address that sends an example request."""
    settings = context.settings
    route, body = _example_request(engine)
    key = "" if settings.api_key is None else " -H 'authorization: Bearer KEY'"
    urls = [_url(context)] if settings.listens_on_tcp else []
    if settings.unix_socket is not None:
        option, path = "--unix-socket", str(settings.unix_socket)
        if path.startswith("@"):  # without a file
            option, path = "--abstract-unix-socket", path.removeprefix("@")
        urls.append(f"{option} {shlex.quote(path)} http://localhost{settings.root_path}")
    return "".join(
        f"{'or' if number else 'try'}: curl -s {url}{route}{key} -d '{body}'\n"
        for number, url in enumerate(urls)
    )


def _model(settings: Settings, engine: Mapping[str, Any] | None) -> str:
    if engine is None:
        return f"model {settings.name}: loaded on demand\n"
    return (
        f"model {settings.name}: {_outputs(engine)}, {engine['max_length']} tokens, "
        f"on {engine['device']} in {engine['dtype']}, {engine['threads']} threads, "
        f"{_computed_by(engine)}\n"
    )


def _outputs(engine: Mapping[str, Any]) -> str:
    if (labels := engine["labels"]) is not None:
        return "reranker" if len(labels) == 1 else f"{len(labels)} labels"
    descriptions = {
        DENSE: f"{engine['dim']} dimensions",
        SPARSE: f"sparse vectors of {engine['vocab_size']} entries",
        MULTI: f"{engine['dim']} dimensions for each token",
        DECISION: "decisions",
        LABELS: "candidate labels",
    }
    outputs = engine["outputs"]
    if DENSE in outputs:  # their dimensions may be fewer
        descriptions[MULTI] = "vectors of tokens"
    return " and ".join(text for name, text in descriptions.items() if name in outputs)


def _example_request(engine: Mapping[str, Any] | None) -> tuple[str, str]:
    """The route of a model and a body for it; of one that is not loaded, the usual ones."""
    if engine is None:
        return _EXAMPLES[DENSE]
    if (labels := engine["labels"]) is None:
        examples = (each for name, each in _EXAMPLES.items() if name in engine["outputs"])
        return next(examples, _EXAMPLES[DENSE])  # a family of another package may have others
    if len(labels) > 1:
        return "/predict", '{"inputs": "Hello, world"}'
    return "/rerank", '{"query": "What is rust?", "texts": ["A fungus.", "Iron oxide."]}'


def _computed_by(engine: Mapping[str, Any]) -> str:
    parts = []
    if engine["kernels"] is not None:
        parts.append(f"{engine['kernels']} kernels")
    if engine["torch"] is not None:
        parts.append(f"PyTorch for {engine['torch']}")
    return " and ".join(parts) or "numpy"  # a table of vectors has no layers
