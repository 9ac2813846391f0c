"""Clients in Python, blocking and asynchronous: many texts in, numpy out, in order.

They need httpx, numpy and orjson, and nothing of the server but the modules imported here.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar, Unpack

import httpx
import numpy as np

from service import question
from service.failure import RequestFailed
from service.question import (
    EmbedOptions,
    Question,
    Side,
    SimilarityOptions,
    Text,
    TokensOptions,
)
from service.reply import Array, Tokens
from service.retry import Found, passing, pause

__all__ = ["AsyncClient", "Client", "RequestFailed", "Tokens"]

A = TypeVar("A")


@dataclass(eq=False)
class _Terms:
    """What both clients are told.

    batch: most texts in a request. retries: further attempts where the server is busy or gone (429,
    502, 503) or the connection breaks, each after what Retry-After says, and at least 0.5, 1, 2, 4,
    8 s and so on up to 30 s. timeout: of an attempt, seconds; the server itself gives up after 60.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    _: KW_ONLY
    timeout: float = 90.0
    batch: int = 64
    retries: int = 5
    _limits: Mapping[str, int] = field(default_factory=dict, init=False, repr=False)

    @property
    def _connection(self) -> dict[str, Any]:
        key = {} if self.api_key is None else {b"authorization": f"Bearer {self.api_key}".encode()}
        return {"base_url": self.url, "headers": key, "timeout": self.timeout}


@dataclass(eq=False)
class Client(_Terms):
    """Sends one request after the other. Every method raises RequestFailed."""

    def __post_init__(self) -> None:
        self._http = httpx.Client(**self._connection)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def embed(
        self,
        texts: Text | Iterable[Text],
        *,
        progress: bool = False,
        **options: Unpack[EmbedOptions],
    ) -> Array:
        """The vectors of texts or token ids: (B, dim) of float32 or the output_dtype.

        progress: show a bar; raises ImportError without tqdm. Raises TypeError for bytes.
        """
        inputs = question.listed(texts)
        self._limits = self._limits or self._ask(question.limits())
        parts = []
        with bar(progress, len(inputs)) as advance:
            for asked in question.embed(inputs, options, self._limits, self.batch):
                parts.append(self._ask(asked))
                advance(asked.count)
        return np.concatenate(parts)

    def tokens(
        self, texts: str | Sequence[str] | None = None, **options: Unpack[TokensOptions]
    ) -> list[Tokens]:
        """The vectors of each text's tokens, spans or chunks; one request."""
        return self._ask(question.tokens(texts, options))

    def similarity(self, a: Side, b: Side, **options: Unpack[SimilarityOptions]) -> Array:
        """Scores (A, B), or (A,) of pairs; with top_k (A, k) of the fields index and score."""
        return self._ask(question.similarity(a, b, options))

    def positions(self, **options: Any) -> dict[str, Any]:
        """The answer of /positions to its fields, with arrays for numbers; docs/positions.md."""
        return self._ask(question.positions(options))

    def info(self) -> dict[str, Any]:
        """The model, its precision and the limits."""
        return self._ask(question.info())

    def _ask(self, asked: Question[A]) -> A:
        for attempt in range(self.retries):
            found = self._try(asked)
            if not passing(found):
                return asked.answer(found)
            time.sleep(pause(found, attempt))
        return asked.answer(self._try(asked))

    def _try(self, asked: Question[A]) -> Found:
        try:
            return self._http.request(
                asked.method, asked.path, content=asked.body, headers=asked.headers
            )
        except httpx.RequestError as error:
            return error


@dataclass(eq=False)
class AsyncClient(_Terms):
    """The same for asyncio. concurrency: requests of one embed() at a time.

    Raises ValueError for a concurrency of none.
    """

    concurrency: int = field(default=4, kw_only=True)

    def __post_init__(self) -> None:
        if self.concurrency < 1:  # nothing would be sent, and no vectors be there to join
            raise ValueError(f"concurrency is {self.concurrency}; it is 1 or more")
        self._http = httpx.AsyncClient(**self._connection)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def embed(
        self,
        texts: Text | Iterable[Text],
        *,
        progress: bool = False,
        **options: Unpack[EmbedOptions],
    ) -> Array:
        """As Client.embed."""
        inputs = question.listed(texts)
        self._limits = self._limits or await self._ask(question.limits())
        questions = enumerate(question.embed(inputs, options, self._limits, self.batch))
        parts: dict[int, Array] = {}

        async def work(advance: Callable[[int], object]) -> None:
            for place, asked in questions:
                parts[place] = await self._ask(asked)
                advance(asked.count)

        with bar(progress, len(inputs)) as advance:
            await together([work(advance) for _ in range(self.concurrency)])
        return np.concatenate([parts[place] for place in sorted(parts)])

    async def tokens(
        self, texts: str | Sequence[str] | None = None, **options: Unpack[TokensOptions]
    ) -> list[Tokens]:
        """As Client.tokens."""
        return await self._ask(question.tokens(texts, options))

    async def similarity(self, a: Side, b: Side, **options: Unpack[SimilarityOptions]) -> Array:
        """As Client.similarity."""
        return await self._ask(question.similarity(a, b, options))

    async def positions(self, **options: Any) -> dict[str, Any]:
        """As Client.positions."""
        return await self._ask(question.positions(options))

    async def info(self) -> dict[str, Any]:
        """As Client.info."""
        return await self._ask(question.info())

    async def _ask(self, asked: Question[A]) -> A:
        for attempt in range(self.retries):
            found = await self._try(asked)
            if not passing(found):
                return asked.answer(found)
            await asyncio.sleep(pause(found, attempt))
        return asked.answer(await self._try(asked))

    async def _try(self, asked: Question[A]) -> Found:
        try:
            return await self._http.request(
                asked.method, asked.path, content=asked.body, headers=asked.headers
            )
        except httpx.RequestError as error:
            return error


@contextmanager
def bar(shown: bool, total: int) -> Iterator[Callable[[int], object]]:
    """Gives what is called with the number of texts that are done."""
    if not shown:
        yield lambda _: None
        return
    try:
        from tqdm import tqdm  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError("the progress bar needs tqdm: pip install tqdm") from None
    with tqdm(total=total, unit=" texts") as found:
        yield found.update


async def together(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all; the first that fails ends the others and is what is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
