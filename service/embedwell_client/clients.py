"""The blocking and the asyncio client, which have the same methods."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar, Unpack

import httpx
import numpy as np

from embedwell_client import request_builders
from embedwell_client.options import (
    DEFAULT_MODEL,
    AsyncSendOptions,
    AttemptResult,
    ClientOptions,
    SendOptions,
    is_retryable,
    retry_delay,
)
from embedwell_client.request_builders import (
    AnalogyOptions,
    ComparisonInput,
    EmbedOptions,
    InputOptions,
    NeighborsOptions,
    Request,
    RerankOptions,
    SimilarityOptions,
    SparseOptions,
    TextOrIds,
    TokensOptions,
)
from embedwell_client.responses import Array, Neighbor, SparseWeights, TokenVectors

A = TypeVar("A")


@dataclass(eq=False)
class Client(ClientOptions):
    """The blocking client: sends one request after the other. All methods raise RequestFailed.

    transport: sends requests otherwise than over TCP, such as httpx.HTTPTransport(uds=PATH).
    """

    transport: httpx.BaseTransport | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        self._http = httpx.Client(**self.httpx_arguments, transport=self.transport)

    @classmethod
    def local(cls, model: str = DEFAULT_MODEL, **options: Unpack[SendOptions]) -> Self:
        """Create a client of a model on the server that all programs of this user share.

        The first request starts the server if it does not run. Raises ImportError on Windows.

        model: a model's name or path.
        """
        from embedwell_client.local_server import local_server
        from embedwell_client.local_transport import LocalTransport

        server = local_server(model)
        return cls(server.url, transport=LocalTransport(server), **options)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def embed(
        self,
        texts: TextOrIds | Iterable[TextOrIds],
        *,
        progress: bool = False,
        **options: Unpack[EmbedOptions],
    ) -> Array:
        """Return the vectors of texts or token ids: (B, dim) in float32 or the output_dtype.

        Raises TypeError for bytes.

        progress: show a bar; raises ImportError without tqdm.
        """
        inputs = request_builders.as_list(texts)
        self._limits = self._limits or self._send(request_builders.build_limits_request())
        arrays = []
        with _progress_bar(progress, len(inputs)) as advance:
            for request in request_builders.build_embed_requests(
                inputs, options, self._limits, self.batch
            ):
                arrays.append(self._send(request))
                advance(request.num_inputs)
        return np.concatenate(arrays)

    def tokens(
        self, texts: str | Sequence[str] | None = None, **options: Unpack[TokensOptions]
    ) -> list[TokenVectors]:
        """Return the vectors of each text's tokens, spans or chunks; sends one request."""
        return self._send(request_builders.build_tokens_request(texts, options))

    def embed_sparse(
        self, texts: TextOrIds | Sequence[TextOrIds], **options: Unpack[SparseOptions]
    ) -> list[SparseWeights]:
        """Return the sparse vectors of texts or token ids; sends one request."""
        inputs = request_builders.as_list(texts)
        return self._send(request_builders.build_sparse_request(inputs, options))

    def similarity(
        self, a: ComparisonInput, b: ComparisonInput, **options: Unpack[SimilarityOptions]
    ) -> Array:
        """Return scores (A, B), or (A,) of pairs; with top_k (A, k) of fields index and score."""
        return self._send(request_builders.build_similarity_request(a, b, options))

    def rerank(
        self, query: str, documents: Sequence[str], **options: Unpack[RerankOptions]
    ) -> Array:
        """Return the best documents for a query, best first: (N,) of the fields index and score."""
        return self._send(request_builders.build_rerank_request(query, documents, options))

    def neighbors(
        self, texts: str | Sequence[str], **options: Unpack[NeighborsOptions]
    ) -> list[list[Neighbor]]:
        """Return the words or candidates nearest to each text, nearest first."""
        return self._send(request_builders.build_neighbors_request(texts, options))

    def analogy(
        self,
        positive: Sequence[str],
        negative: Sequence[str] = (),
        **options: Unpack[AnalogyOptions],
    ) -> list[Neighbor]:
        """Return queen from king and woman (positive) and man (negative): texts, best first."""
        return self._send(request_builders.build_analogy_request(positive, negative, options))

    def doesnt_match(self, texts: Sequence[str], **options: Unpack[InputOptions]) -> str:
        """Return the text that is least like the others."""
        return self._send(request_builders.build_doesnt_match_request(texts, options))

    def positions(self, **options: Any) -> dict[str, Any]:
        """Return the response of /positions, with arrays for lists of numbers.

        options: fields of the request, see docs/positions.md.
        """
        return self._send(request_builders.build_positions_request(options))

    def info(self) -> dict[str, Any]:
        """Return the model, its precision and the limits."""
        return self._send(request_builders.build_info_request())

    def _send(self, request: Request[A]) -> A:
        for number in range(self.retries):
            attempt = self._attempt(request)
            if not is_retryable(attempt):
                return request.result(attempt)
            time.sleep(retry_delay(attempt, number))
        return request.result(self._attempt(request))

    def _attempt(self, request: Request[A]) -> AttemptResult:
        try:
            return self._http.request(
                request.method, request.path, content=request.body, headers=request.headers
            )
        except httpx.RequestError as error:
            return error


@dataclass(eq=False)
class AsyncClient(ClientOptions):
    """The asyncio client, with the methods of Client.

    Raises ValueError for a concurrency below 1.

    concurrency: how many requests of one embed() are sent at once.
    transport: as of Client, such as httpx.AsyncHTTPTransport(uds=PATH).
    """

    concurrency: int = field(default=4, kw_only=True)
    transport: httpx.AsyncBaseTransport | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.concurrency < 1:  # nothing would be sent, and there would be no vectors to join
            raise ValueError(f"concurrency is {self.concurrency}; it must be 1 or more")
        self._http = httpx.AsyncClient(**self.httpx_arguments, transport=self.transport)

    @classmethod
    def local(cls, model: str = DEFAULT_MODEL, **options: Unpack[AsyncSendOptions]) -> Self:
        """Like Client.local."""
        from embedwell_client.local_server import local_server
        from embedwell_client.local_transport import AsyncLocalTransport

        server = local_server(model)
        return cls(server.url, transport=AsyncLocalTransport(server), **options)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def embed(
        self,
        texts: TextOrIds | Iterable[TextOrIds],
        *,
        progress: bool = False,
        **options: Unpack[EmbedOptions],
    ) -> Array:
        """Like Client.embed."""
        inputs = request_builders.as_list(texts)
        self._limits = self._limits or await self._send(request_builders.build_limits_request())
        numbered = enumerate(
            request_builders.build_embed_requests(inputs, options, self._limits, self.batch)
        )
        arrays: dict[int, Array] = {}

        async def send_all(advance: Callable[[int], object]) -> None:
            for number, request in numbered:
                arrays[number] = await self._send(request)
                advance(request.num_inputs)

        with _progress_bar(progress, len(inputs)) as advance:
            await _gather([send_all(advance) for _ in range(self.concurrency)])
        return np.concatenate([arrays[number] for number in sorted(arrays)])

    async def tokens(
        self, texts: str | Sequence[str] | None = None, **options: Unpack[TokensOptions]
    ) -> list[TokenVectors]:
        """Like Client.tokens."""
        return await self._send(request_builders.build_tokens_request(texts, options))

    async def embed_sparse(
        self, texts: TextOrIds | Sequence[TextOrIds], **options: Unpack[SparseOptions]
    ) -> list[SparseWeights]:
        """Return the sparse vectors of texts or token ids; sends one request."""
        inputs = request_builders.as_list(texts)
        return await self._send(request_builders.build_sparse_request(inputs, options))

    async def similarity(
        self, a: ComparisonInput, b: ComparisonInput, **options: Unpack[SimilarityOptions]
    ) -> Array:
        """Like Client.similarity."""
        return await self._send(request_builders.build_similarity_request(a, b, options))

    async def rerank(
        self, query: str, documents: Sequence[str], **options: Unpack[RerankOptions]
    ) -> Array:
        """Like Client.rerank."""
        return await self._send(request_builders.build_rerank_request(query, documents, options))

    async def neighbors(
        self, texts: str | Sequence[str], **options: Unpack[NeighborsOptions]
    ) -> list[list[Neighbor]]:
        """Like Client.neighbors."""
        return await self._send(request_builders.build_neighbors_request(texts, options))

    async def analogy(
        self,
        positive: Sequence[str],
        negative: Sequence[str] = (),
        **options: Unpack[AnalogyOptions],
    ) -> list[Neighbor]:
        """Like Client.analogy."""
        return await self._send(request_builders.build_analogy_request(positive, negative, options))

    async def doesnt_match(self, texts: Sequence[str], **options: Unpack[InputOptions]) -> str:
        """Like Client.doesnt_match."""
        return await self._send(request_builders.build_doesnt_match_request(texts, options))

    async def positions(self, **options: Any) -> dict[str, Any]:
        """Like Client.positions."""
        return await self._send(request_builders.build_positions_request(options))

    async def info(self) -> dict[str, Any]:
        """Like Client.info."""
        return await self._send(request_builders.build_info_request())

    async def _send(self, request: Request[A]) -> A:
        for number in range(self.retries):
            attempt = await self._attempt(request)
            if not is_retryable(attempt):
                return request.result(attempt)
            await asyncio.sleep(retry_delay(attempt, number))
        return request.result(await self._attempt(request))

    async def _attempt(self, request: Request[A]) -> AttemptResult:
        try:
            return await self._http.request(
                request.method, request.path, content=request.body, headers=request.headers
            )
        except httpx.RequestError as error:
            return error


async def _gather(coroutines: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all; the first exception cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


@contextmanager
def _progress_bar(shown: bool, total: int) -> Iterator[Callable[[int], object]]:
    """Show a bar; yields a function to call with the number of embedded texts."""
    if not shown:
        yield lambda _: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        raise ImportError("the progress bar needs tqdm: pip install tqdm") from None
    with tqdm(total=total, unit=" texts") as bar:
        yield bar.update
