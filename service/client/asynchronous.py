"""The client for asyncio."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, Unpack

import httpx
import numpy as np

from service.client import question
from service.client.progress import bar
from service.client.question import (
    EmbedOptions,
    Question,
    Side,
    SimilarityOptions,
    Text,
    TokensOptions,
)
from service.client.reply import Array, Tokens
from service.client.retry import Found, passing, pause
from service.client.terms import Terms

A = TypeVar("A")


@dataclass(eq=False)
class AsyncClient(Terms):
    """The same for asyncio. concurrency: requests of one embed() at a time.

    Raises ValueError for a concurrency of none.
    """

    concurrency: int = field(default=4, kw_only=True)

    def __post_init__(self) -> None:
        if self.concurrency < 1:  # nothing would be sent, and no vectors be there to join
            raise ValueError(f"concurrency is {self.concurrency}; it is 1 or more")
        self._http = httpx.AsyncClient(**self.connection)

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
            await _together([work(advance) for _ in range(self.concurrency)])
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


async def _together(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run all; the first that fails ends the others and is what is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
