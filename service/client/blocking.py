"""The client that blocks."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
class Client(Terms):
    """Sends one request after the other. Every method raises RequestFailed."""

    def __post_init__(self) -> None:
        self._http = httpx.Client(**self.connection)

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
