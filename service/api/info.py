"""What /info tells: the model, its precision and the limits, and the same in TEI's words."""

from dataclasses import asdict
from typing import Any

from models.sentence_transformers.sentence import SentenceConfig
from models.vectors import INT8
from service import __version__
from service.engine.host.engine_connection import EngineConnection
from service.inference.dimensions import Dimensions
from service.settings import Settings

_LIMITS = (
    "max_body_bytes",
    "receive_timeout",
    "max_texts",
    "max_tokens",
    "max_values",
    "max_wait",
    "request_timeout",
)
_BATCH = 32  # texts in a request to TEI, unless its operator says otherwise
_POOLINGS = {"lasttoken": "last_token"}  # by the names of sentence-transformers


def info(
    settings: Settings, link: EngineConnection, sentence: SentenceConfig, dimensions: Dimensions
) -> dict[str, Any]:
    """All of it as it is now: what only the engine knows is None until that has started."""
    return {
        "version": __version__,
        "model": settings.name,
        "source": settings.model,
        "revision": settings.revision,
        "engine": link.description and asdict(link.description),
        "engine_restarts": link.restarts,
        "prompts": sentence.prompts,
        "default_prompt": sentence.default_prompt,
        "pooling": list(sentence.pooling),
        "pooling_source": sentence.pooling_source,
        "auto_truncate": settings.auto_truncate,
        "vector_cache_bytes": settings.vector_cache_bytes,
        "dimensions": dimensions.as_json(),
        "int8": INT8,
        "limits": {name: getattr(settings, name) for name in _LIMITS},
        **_teis(settings, link, sentence),
    }


def _teis(settings: Settings, link: EngineConnection, sentence: SentenceConfig) -> dict[str, Any]:
    engine, length = link.description, sentence.max_length
    connections = settings.max_connections * settings.workers
    # Its clients send as many texts at once as they are told, however long these are.
    batch = max(_BATCH, settings.max_tokens // length)
    batch_tokens = engine.max_batch_tokens if engine else settings.max_batch_tokens
    queued = settings.max_wait * link.rate.latest / length
    pooling = "+".join(_POOLINGS.get(name, name) for name in sentence.pooling)
    return {
        "model_id": settings.model,
        "model_sha": settings.revision,
        "model_dtype": engine and engine.dtype,
        "model_type": {"embedding": {"pooling": pooling}},
        "served_model_name": settings.name,
        "max_concurrent_requests": min(connections, max(1, int(queued))),
        "max_input_length": length,
        "max_batch_tokens": max(batch_tokens, length),  # a longer text than fits goes alone
        "max_batch_requests": None,
        "max_client_batch_size": min(settings.max_texts, batch),
        "tokenization_workers": settings.workers,
    }
