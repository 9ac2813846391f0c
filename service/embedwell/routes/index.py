"""Routes by the name of their router, written by `make openapi`."""

from collections.abc import Mapping, Sequence

from embedwell.http.error_responses import COHERE, NATIVE, OLLAMA, OPENAI, VLLM, VOYAGE
from embedwell.http.route_traits import RouteTraits
from embedwell.routes.common.lazy_route import RouteEntry

ROUTES: Mapping[str, Sequence[RouteEntry]] = {
    "openapi": (
        RouteEntry("GET", "/docs", RouteTraits(NATIVE, without_key=True), documented=False),
        RouteEntry("GET", "/openapi.json", RouteTraits(NATIVE, without_key=True), documented=False),
    ),
    "embed_sparse": (
        RouteEntry("POST", "/embed_sparse", RouteTraits(NATIVE, computes=True), "embed"),
    ),
    "tokens": (
        RouteEntry("POST", "/tokens", RouteTraits(NATIVE, computes=True), "tokens"),
        RouteEntry("POST", "/embed_all", RouteTraits(NATIVE, computes=True), "tokens"),
    ),
    "positions": (
        RouteEntry("POST", "/positions", RouteTraits(NATIVE), "tokens"),
        RouteEntry("GET", "/positions", RouteTraits(NATIVE), "tokens"),
    ),
    "similarity": (RouteEntry("POST", "/similarity", RouteTraits(NATIVE), "compare"),),
    "words": (
        RouteEntry("POST", "/neighbors", RouteTraits(NATIVE), "compare"),
        RouteEntry("POST", "/analogy", RouteTraits(NATIVE), "compare"),
        RouteEntry("POST", "/doesnt_match", RouteTraits(NATIVE), "compare"),
    ),
    "multi_vector": (
        RouteEntry("POST", "/v1/multi-vector", RouteTraits(OPENAI, computes=True), "embed"),
    ),
    "rerank": (
        RouteEntry(
            "POST", "/v1/reranking", RouteTraits(OPENAI, computes=True), "rerank", "/rerank"
        ),
        RouteEntry("POST", "/v1/rerank", RouteTraits(OPENAI, computes=True), "rerank", "/rerank"),
        RouteEntry("POST", "/rerank", RouteTraits(NATIVE, computes=True), "rerank"),
        RouteEntry("POST", "/v2/rerank", RouteTraits(COHERE, computes=True), "rerank"),
    ),
    "score": (
        RouteEntry("POST", "/v1/score", RouteTraits(OPENAI, computes=True), "rerank", "/score"),
        RouteEntry("POST", "/score", RouteTraits(NATIVE, computes=True), "rerank"),
    ),
    "nim": (
        RouteEntry(
            "POST",
            "/v1/retrieval/nvidia/reranking",
            RouteTraits(OPENAI, computes=True),
            "rerank",
            "/v1/ranking",
        ),
        RouteEntry("POST", "/v1/ranking", RouteTraits(OPENAI, computes=True), "rerank"),
    ),
    "classify": (
        RouteEntry("POST", "/predict", RouteTraits(NATIVE, computes=True), "classify"),
        RouteEntry("POST", "/classify", RouteTraits(NATIVE, computes=True), "classify"),
    ),
    "decisions": (
        RouteEntry("POST", "/v1/decisions", RouteTraits(OPENAI, computes=True), "decide"),
    ),
    "system_one": (
        RouteEntry("POST", "/v1/systemone", RouteTraits(NATIVE, computes=True), "decide"),
    ),
    "zero_shot": (
        RouteEntry(
            "POST", "/zero-shot-classification", RouteTraits(NATIVE, computes=True), "classify"
        ),
    ),
    "tokenize": (
        RouteEntry("POST", "/tokenize", RouteTraits(NATIVE), "tokens"),
        RouteEntry("POST", "/decode", RouteTraits(NATIVE), "tokens"),
        RouteEntry("POST", "/detokenize", RouteTraits(NATIVE), "tokens"),
    ),
    "openai": (
        RouteEntry(
            "POST",
            "/embeddings",
            RouteTraits(VOYAGE, base_path="/v1/", computes=True),
            "OpenAI",
            "/v1/embeddings",
        ),
        RouteEntry(
            "POST", "/v1/embeddings", RouteTraits(VOYAGE, base_path="/v1/", computes=True), "OpenAI"
        ),
    ),
    "models": (
        RouteEntry("GET", "/v1/models", RouteTraits(OPENAI), "OpenAI"),
        RouteEntry("GET", "/models", RouteTraits(OPENAI), "OpenAI"),
        RouteEntry("GET", "/v1/models/{name:path}", RouteTraits(OPENAI), "OpenAI"),
    ),
    "azure": (
        RouteEntry(
            "POST",
            "/openai/v1/embeddings",
            RouteTraits(OPENAI, base_path="/openai/", computes=True),
            "OpenAI",
            documented=False,
        ),
        RouteEntry(
            "POST",
            "/openai/deployments/{name:path}/embeddings",
            RouteTraits(OPENAI, base_path="/openai/", computes=True),
            "OpenAI",
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "GET",
            "/openai/models",
            RouteTraits(OPENAI, base_path="/openai/", computes=True),
            "OpenAI",
            documented=False,
        ),
        RouteEntry(
            "GET",
            "/openai/v1/models",
            RouteTraits(OPENAI, base_path="/openai/", computes=True),
            "OpenAI",
            documented=False,
        ),
    ),
    "cohere": (
        RouteEntry(
            "POST", "/v2/embed", RouteTraits(COHERE, base_path="/v2/", computes=True), "Cohere"
        ),
        RouteEntry(
            "POST",
            "/v1/check-api-key",
            RouteTraits(OPENAI, base_path="/v2/"),
            "Cohere",
            by_fastapi=True,
        ),
        RouteEntry(
            "POST", "/v1/embed", RouteTraits(COHERE, base_path="/v2/", computes=True), "Cohere"
        ),
    ),
    "voyage": (
        RouteEntry(
            "POST", "/v1/multimodalembeddings", RouteTraits(VOYAGE, computes=True), "OpenAI"
        ),
    ),
    "cohere_tokenize": (
        RouteEntry("POST", "/v1/tokenize", RouteTraits(OPENAI), "Cohere"),
        RouteEntry("POST", "/v1/detokenize", RouteTraits(OPENAI), "Cohere"),
    ),
    "vllm": (RouteEntry("POST", "/pooling", RouteTraits(VLLM, computes=True), "embed"),),
    "ollama": (
        RouteEntry(
            "POST", "/api/embed", RouteTraits(OLLAMA, base_path="/api/", computes=True), "Ollama"
        ),
        RouteEntry(
            "POST",
            "/api/embeddings",
            RouteTraits(OLLAMA, base_path="/api/", computes=True),
            "Ollama",
        ),
    ),
    "ollama_models": (
        RouteEntry("GET", "/api/tags", RouteTraits(OLLAMA), "Ollama"),
        RouteEntry("GET", "/api/ps", RouteTraits(OLLAMA), "Ollama"),
        RouteEntry("GET", "/api/version", RouteTraits(OLLAMA), "Ollama"),
        RouteEntry("POST", "/api/show", RouteTraits(OLLAMA), "Ollama"),
        RouteEntry("POST", "/api/pull", RouteTraits(OLLAMA), "Ollama"),
    ),
    "admin": (
        RouteEntry(
            "POST", "/models/{name:path}/load", RouteTraits(NATIVE), "status", by_fastapi=True
        ),
        RouteEntry(
            "POST", "/models/{name:path}/unload", RouteTraits(NATIVE), "status", by_fastapi=True
        ),
    ),
    "feature_extraction": (
        RouteEntry(
            "POST",
            "/models/{name}/pipeline/feature-extraction",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST",
            "/hf-inference/models/{name}/pipeline/feature-extraction",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST",
            "/pipeline/feature-extraction/{name}",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST",
            "/models/{organisation}/{name}/pipeline/feature-extraction",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST",
            "/hf-inference/models/{organisation}/{name}/pipeline/feature-extraction",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST",
            "/pipeline/feature-extraction/{organisation}/{name}",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST",
            "/models/{name}/pipeline/sentence-similarity",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST",
            "/hf-inference/models/{name}/pipeline/sentence-similarity",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST",
            "/pipeline/sentence-similarity/{name}",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST",
            "/models/{organisation}/{name}/pipeline/sentence-similarity",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST",
            "/hf-inference/models/{organisation}/{name}/pipeline/sentence-similarity",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST",
            "/pipeline/sentence-similarity/{organisation}/{name}",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST", "/models/{name}", RouteTraits(NATIVE), documented=False, by_fastapi=True
        ),
        RouteEntry(
            "POST",
            "/hf-inference/models/{name}",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST",
            "/models/{organisation}/{name}",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
        RouteEntry(
            "POST",
            "/hf-inference/models/{organisation}/{name}",
            RouteTraits(NATIVE),
            documented=False,
            by_fastapi=True,
        ),
    ),
    "weaviate": (
        RouteEntry("POST", "/vectors", RouteTraits(NATIVE, computes=True), "Weaviate"),
        RouteEntry(
            "GET",
            "/.well-known/live",
            RouteTraits(
                NATIVE, without_key=True, is_health_check=True, is_monitoring=True, computes=True
            ),
            "Weaviate",
            documented=False,
        ),
        RouteEntry(
            "GET",
            "/.well-known/ready",
            RouteTraits(
                NATIVE, without_key=True, is_health_check=True, is_monitoring=True, computes=True
            ),
            "Weaviate",
            documented=False,
        ),
        RouteEntry(
            "GET", "/meta", RouteTraits(NATIVE, computes=True), "Weaviate", documented=False
        ),
    ),
    "unknown_model": (
        RouteEntry(
            "GET POST", "/m/{path:path}", RouteTraits(NATIVE), documented=False, by_fastapi=True
        ),
    ),
    "sagemaker": (
        RouteEntry("POST", "/invocations", RouteTraits(NATIVE), documented=False, by_fastapi=True),
    ),
    "batches": (
        RouteEntry(
            "POST", "/v1/files", RouteTraits(OPENAI, uploads=True), "batches", by_fastapi=True
        ),
        RouteEntry("GET", "/v1/files", RouteTraits(OPENAI), "batches"),
        RouteEntry("GET", "/v1/files/{id}", RouteTraits(OPENAI), "batches"),
        RouteEntry("GET", "/v1/files/{id}/content", RouteTraits(OPENAI), "batches"),
        RouteEntry("DELETE", "/v1/files/{id}", RouteTraits(OPENAI), "batches"),
        RouteEntry("POST", "/v1/batches", RouteTraits(OPENAI), "batches"),
        RouteEntry("GET", "/v1/batches", RouteTraits(OPENAI), "batches"),
        RouteEntry("GET", "/v1/batches/{id}", RouteTraits(OPENAI), "batches"),
        RouteEntry(
            "POST", "/v1/batches/{id}/cancel", RouteTraits(OPENAI), "batches", by_fastapi=True
        ),
    ),
}
"""The routes of each router, except of those at the start of a server."""
