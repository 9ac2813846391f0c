"""Running servers as a TextEncoder."""

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from embedwell.bulk.dispatch import Dispatcher
from embedwell.bulk.errors import BulkError
from embedwell.bulk.server_worker import IN_FLIGHT, ServerWorker, describe_model
from embedwell_client import Client, RequestFailed, request_builders

_TEXTS, _CHARACTERS = 64, 16384  # maximum of a request, which has at least one text
_RETRIES = 1  # none by the client, because another server may be free
_FAILURE_TIMEOUT = 120.0  # seconds without a success of any server that end a run

_client_log = logging.getLogger(request_builders.__name__)


class _First(logging.Filter):
    """Passes only one record: the client warns of truncated texts at every request."""

    passed = False

    def filter(self, record: logging.LogRecord) -> bool:
        first, self.passed = not self.passed, True
        return first


@contextmanager
def connect(
    urls: Sequence[str],
    api_key: str | None,
    prompt: str | None,
    failure_timeout: float = _FAILURE_TIMEOUT,
) -> Iterator[Dispatcher]:
    """Connect to servers of one model. Raises BulkError if one is unreachable or differs.

    prompt: None for the model's default prompt.
    failure_timeout: seconds of failures of all servers that end a run.
    """
    with ExitStack() as stack:
        first = _First()
        _client_log.addFilter(first)
        stack.callback(_client_log.removeFilter, first)
        clients = [stack.enter_context(Client(url, api_key, retries=_RETRIES)) for url in urls]
        pool = stack.enter_context(ThreadPoolExecutor(IN_FLIGHT * len(urls)))
        servers = []
        for url, client in zip(urls, clients, strict=True):
            try:
                description = describe_model(client, url)
            except RequestFailed as error:
                raise BulkError(f"{url}: {error}") from None
            if description is None:
                raise BulkError(f"{url} has not loaded its model yet; try again in a minute")
            servers.append(ServerWorker(url, client, description, pool, prompt))
            if servers[-1].description != servers[0].description:
                raise BulkError(
                    f"{url} has another model or precision than {urls[0]}; choose servers with "
                    "the same"
                )
        description = dict(servers[0].description)
        if prompt is not None:
            description["prompt"] = prompt
        yield Dispatcher(servers, description, _TEXTS, _CHARACTERS, failure_timeout)
