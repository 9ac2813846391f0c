"""Readers, pipelines and comparisons of tests without a server."""

import threading
from collections.abc import Sequence
from typing import Any

from embedwell.compute.admission import Admission, KnownRate
from embedwell.compute.pipeline import Pipeline
from embedwell.compute.request_reader import RequestReader
from embedwell.compute.vector_cache import JobEngine, VectorCache
from embedwell.compute.work_queue import ComparisonQueue, WorkQueue
from embedwell.engine.wire.engine_state import SharedCounters
from embedwell_models.model_files.vector_recipe import VectorRecipe
from embedwell_models.tokenizer.steps import Steps
from embedwell_models.tokenizer.tokenizer import Tokenizer
from embedwell_models.tokenizer.tokens import Side, Token, TruncatedIds
from embedwell_vision.reader import ImageReader

LONG = "many words " * 300


class CountingTokenizer(Tokenizer):
    """Counts the texts that it tokenizes and the calls, and records in which threads."""

    read = calls = 0
    threads: frozenset[str] = frozenset()

    def encode_in_steps(
        self, texts: Sequence[str], side: Side | None = None, count_limit: float = 0
    ) -> Steps[list[TruncatedIds]]:
        self.read += len(texts)
        self.calls += 1
        self.threads |= {threading.current_thread().name}
        return super().encode_in_steps(texts, side, count_limit)

    def encode_with_tokens(
        self, text: str, prompt: str = "", side: Side | None = None, count_limit: float = 0
    ) -> Steps[tuple[TruncatedIds, list[Token]]]:
        self.read += 1
        return super().encode_with_tokens(text, prompt, side, count_limit)


def reader_with(  # noqa: PLR0913 - all but two by name
    tokenizer: Tokenizer,
    recipe: VectorRecipe | None = None,
    *,
    vocabulary_rows: int = 30522,
    max_texts: int = 10,
    max_tokens: int = 10_000,
    images: ImageReader | None = None,
) -> RequestReader:
    queue = WorkQueue(timeout=60, max_wait=60)
    return RequestReader(
        tokenizer,
        recipe or VectorRecipe(max_length=256),
        queue,
        vocabulary_rows=vocabulary_rows,
        min_tokens=1,
        max_texts=max_texts,
        max_tokens=max_tokens,
        auto_truncate=True,
        raw_token_ids=False,
        images=lambda: images or ImageReader(max_pixels=100, max_tokens=max_tokens),
    )


def pipeline_of(
    engine: JobEngine,
    admission: Admission | None = None,
    *,
    cache_bytes: int = 0,
    **options: Any,
) -> Pipeline:
    """Create a pipeline with a second for each request. admission: admits all by default."""
    admission = admission or Admission(1, KnownRate(0.0), SharedCounters.private())
    cache = VectorCache(engine, cache_bytes) if cache_bytes else None
    return Pipeline(admission, engine, 1, cache=cache, **options)


def comparisons(rate: float = 0.0, max_wait: float = 60.0) -> ComparisonQueue:
    """Return comparisons in a queue.

    rate: units of work per second, until it is measured; 0 if unknown.
    """
    return ComparisonQueue(WorkQueue(60, max_wait, max_wait, threads=1, rate=rate))
