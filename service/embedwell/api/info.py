"""Response of /info: the model, its precision, the limits, and TEI's fields."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from embedwell import __version__
from embedwell.engine.client.current_engine import CurrentEngine
from embedwell.inference.dimensions import AllowedDimensions
from embedwell.settings.settings import Settings
from embedwell_models.folder import Folder
from embedwell_models.sentence_transformers.classifier import ClassifierOptions
from embedwell_models.sentence_transformers.sentence import SentenceConfig
from embedwell_models.vectors import INT8

_LIMIT_SETTINGS = (
    "max_body_bytes",
    "receive_timeout",
    "max_texts",
    "max_tokens",
    "max_image_pixels",
    "max_values",
    "max_wait",
    "request_timeout",
)
_TEI_CLIENT_BATCH = 32  # TEI's default limit of texts in a request
_TEI_POOLING_NAMES = {"lasttoken": "last_token"}  # names of sentence-transformers


def server_info(
    settings: Settings,
    engine: CurrentEngine,
    model: Folder,
    dimensions: AllowedDimensions,
    adapters: Sequence[str] = (),
) -> dict[str, Any]:
    """Describe the server; fields that only the engine knows are None until it has started.

    adapters: the adapters that a request can choose by its task.
    """
    sentence, classifier = model.sentence, model.classifier
    return {
        "version": __version__,
        "model": settings.name,
        "task": model.task,
        "adapter": model.spec.adapter,
        "adapters": [*adapters],
        "outputs": list(model.outputs),
        "modalities": ["text", "image"] if model.images else ["text"],
        "labels": list(classifier.labels) if classifier else None,
        "source": settings.model,
        "revision": settings.revision,
        "engine": engine.description and asdict(engine.description),
        "engine_restarts": engine.restarts,
        "prompts": sentence.prompts,
        "default_prompt": sentence.default_prompt,
        "pooling": list(sentence.pooling),
        "pooling_source": sentence.pooling_source,
        "auto_truncate": settings.auto_truncate,
        "vector_cache_bytes": settings.vector_cache_bytes,
        "dimensions": dimensions.as_json(),
        "int8": INT8,
        "limits": {name: getattr(settings, name) for name in _LIMIT_SETTINGS},
        **_tei_info(settings, engine, sentence),
        "model_type": _tei_model_type(sentence, classifier),
    }


def _tei_info(
    settings: Settings, engine: CurrentEngine, sentence: SentenceConfig
) -> dict[str, Any]:
    description, length = engine.description, sentence.max_length
    connections = settings.max_connections * settings.workers
    # TEI's clients send as many texts at once as this allows, however long they are.
    client_batch = max(_TEI_CLIENT_BATCH, settings.max_tokens // length)
    batch_tokens = description.max_batch_tokens if description else settings.max_batch_tokens
    queued_texts = settings.max_wait * engine.rate.latest / length
    return {
        "model_id": settings.model,
        "model_sha": settings.revision,
        "model_dtype": description and description.dtype,
        "served_model_name": settings.name,
        "max_concurrent_requests": min(connections, max(1, int(queued_texts))),
        "max_input_length": length,
        "max_batch_tokens": max(batch_tokens, length),  # a longer text gets a batch of its own
        "max_batch_requests": None,
        "max_client_batch_size": min(settings.max_texts, client_batch),
        "tokenization_workers": settings.workers,
    }


def _tei_model_type(
    sentence: SentenceConfig, classifier: ClassifierOptions | None
) -> dict[str, Any]:
    if classifier is None:
        pooling = "+".join(_TEI_POOLING_NAMES.get(name, name) for name in sentence.pooling)
        return {"embedding": {"pooling": pooling}}
    labels = {
        "id2label": {str(index): name for index, name in enumerate(classifier.labels)},
        "label2id": {name: index for index, name in enumerate(classifier.labels)},
    }
    return {"reranker" if classifier.reranks else "classifier": labels}
