"""Pipelines of engines that tests have."""

from typing import Any

from embedwell.engine.wire.shared_counters import SharedCounters
from embedwell.inference.pipeline import Pipeline
from embedwell.inference.vector_cache import CachedEngine, VectorCache
from embedwell.inputs.request_tokenizer import RequestTokenizer
from embedwell.limits.admission import Admission


def pipeline_of(
    reader: RequestTokenizer,
    engine: CachedEngine,
    admission: Admission | None = None,
    *,
    cache_bytes: int = 0,
    **options: Any,
) -> Pipeline:
    """Create a pipeline with a second for each request. admission: admits all by default."""
    admission = admission or Admission(1, lambda: 0.0, SharedCounters.private())
    return Pipeline(reader, admission, VectorCache(engine, cache_bytes), 1, **options)
