"""Routes by the name of their router, written by `make openapi`."""

from collections.abc import Mapping, Sequence

from embedwell.http.error_responses import COHERE, NATIVE, OLLAMA, OPENAI, VLLM, VOYAGE
from embedwell.routes.common.lazy_route import RouteEntry, entries

ROUTES: Mapping[str, Sequence[RouteEntry]] = {
    "openapi": entries("GET", NATIVE, "/docs", "/openapi.json", documented=False, without_key=True),
    "embed_sparse": entries("POST", NATIVE, "/embed_sparse", tag="embed", computes=True),
    "tokens": entries("POST", NATIVE, "/tokens", "/embed_all", tag="tokens", computes=True),
    "positions": [
        *entries("POST", NATIVE, "/positions", tag="tokens"),
        *entries("GET", NATIVE, "/positions", tag="tokens"),
    ],
    "similarity": entries("POST", NATIVE, "/similarity", tag="compare"),
    "words": entries("POST", NATIVE, "/neighbors", "/analogy", "/doesnt_match", tag="compare"),
    "multi_vector": entries("POST", OPENAI, "/v1/multi-vector", tag="embed", computes=True),
    "rerank": [
        *entries(
            "POST",
            OPENAI,
            "/v1/reranking",
            "/v1/rerank",
            tag="rerank",
            alias_of="/rerank",
            computes=True,
        ),
        *entries("POST", NATIVE, "/rerank", tag="rerank", computes=True),
        *entries("POST", COHERE, "/v2/rerank", tag="rerank", computes=True),
    ],
    "score": [
        *entries("POST", OPENAI, "/v1/score", tag="rerank", alias_of="/score", computes=True),
        *entries("POST", NATIVE, "/score", tag="rerank", computes=True),
    ],
    "nim": [
        *entries(
            "POST",
            OPENAI,
            "/v1/retrieval/nvidia/reranking",
            tag="rerank",
            alias_of="/v1/ranking",
            computes=True,
        ),
        *entries("POST", OPENAI, "/v1/ranking", tag="rerank", computes=True),
    ],
    "classify": entries("POST", NATIVE, "/predict", "/classify", tag="classify", computes=True),
    "decisions": entries("POST", OPENAI, "/v1/decisions", tag="decide", computes=True),
    "system_one": entries("POST", NATIVE, "/v1/systemone", tag="decide", computes=True),
    "zero_shot": entries(
        "POST", NATIVE, "/zero-shot-classification", tag="classify", computes=True
    ),
    "tokenize": entries("POST", NATIVE, "/tokenize", "/decode", "/detokenize", tag="tokens"),
    "openai": [
        *entries(
            "POST",
            VOYAGE,
            "/embeddings",
            tag="OpenAI",
            alias_of="/v1/embeddings",
            base_path="/v1/",
            computes=True,
        ),
        *entries("POST", VOYAGE, "/v1/embeddings", tag="OpenAI", base_path="/v1/", computes=True),
    ],
    "models": entries(
        "GET", OPENAI, "/v1/models", "/models", "/v1/models/{name:path}", tag="OpenAI"
    ),
    "azure": [
        *entries(
            "POST",
            OPENAI,
            "/openai/v1/embeddings",
            tag="OpenAI",
            documented=False,
            base_path="/openai/",
            computes=True,
        ),
        *entries(
            "POST",
            OPENAI,
            "/openai/deployments/{name:path}/embeddings",
            tag="OpenAI",
            documented=False,
            by_fastapi=True,
            base_path="/openai/",
            computes=True,
        ),
        *entries(
            "GET",
            OPENAI,
            "/openai/models",
            "/openai/v1/models",
            tag="OpenAI",
            documented=False,
            base_path="/openai/",
            computes=True,
        ),
    ],
    "cohere": [
        *entries("POST", COHERE, "/v2/embed", tag="Cohere", base_path="/v2/", computes=True),
        *entries(
            "POST", OPENAI, "/v1/check-api-key", tag="Cohere", by_fastapi=True, base_path="/v2/"
        ),
        *entries("POST", COHERE, "/v1/embed", tag="Cohere", base_path="/v2/", computes=True),
    ],
    "voyage": entries("POST", VOYAGE, "/v1/multimodalembeddings", tag="OpenAI", computes=True),
    "cohere_tokenize": entries("POST", OPENAI, "/v1/tokenize", "/v1/detokenize", tag="Cohere"),
    "vllm": entries("POST", VLLM, "/pooling", tag="embed", computes=True),
    "ollama": entries(
        "POST",
        OLLAMA,
        "/api/embed",
        "/api/embeddings",
        tag="Ollama",
        base_path="/api/",
        computes=True,
    ),
    "ollama_models": [
        *entries("GET", OLLAMA, "/api/tags", "/api/ps", "/api/version", tag="Ollama"),
        *entries("POST", OLLAMA, "/api/show", "/api/pull", tag="Ollama"),
    ],
    "admin": entries(
        "POST",
        NATIVE,
        "/models/{name:path}/load",
        "/models/{name:path}/unload",
        tag="status",
        by_fastapi=True,
    ),
    "feature_extraction": entries(
        "POST",
        NATIVE,
        "/models/{name}/pipeline/feature-extraction",
        "/hf-inference/models/{name}/pipeline/feature-extraction",
        "/pipeline/feature-extraction/{name}",
        "/models/{organisation}/{name}/pipeline/feature-extraction",
        "/hf-inference/models/{organisation}/{name}/pipeline/feature-extraction",
        "/pipeline/feature-extraction/{organisation}/{name}",
        "/models/{name}/pipeline/sentence-similarity",
        "/hf-inference/models/{name}/pipeline/sentence-similarity",
        "/pipeline/sentence-similarity/{name}",
        "/models/{organisation}/{name}/pipeline/sentence-similarity",
        "/hf-inference/models/{organisation}/{name}/pipeline/sentence-similarity",
        "/pipeline/sentence-similarity/{organisation}/{name}",
        "/models/{name}",
        "/hf-inference/models/{name}",
        "/models/{organisation}/{name}",
        "/hf-inference/models/{organisation}/{name}",
        documented=False,
        by_fastapi=True,
    ),
    "weaviate": [
        *entries("POST", NATIVE, "/vectors", tag="Weaviate", computes=True),
        *entries(
            "GET",
            NATIVE,
            "/.well-known/live",
            "/.well-known/ready",
            tag="Weaviate",
            documented=False,
            without_key=True,
            is_health_check=True,
            is_monitoring=True,
            computes=True,
        ),
        *entries("GET", NATIVE, "/meta", tag="Weaviate", documented=False, computes=True),
    ],
    "info": entries("GET", NATIVE, "/info", tag="status"),
    "unknown_model": entries(
        "GET POST", NATIVE, "/m/{path:path}", documented=False, by_fastapi=True
    ),
    "sagemaker": entries("POST", NATIVE, "/invocations", documented=False, by_fastapi=True),
    "batches": [
        *entries("POST", OPENAI, "/v1/files", tag="batches", by_fastapi=True, uploads=True),
        *entries(
            "GET", OPENAI, "/v1/files", "/v1/files/{id}", "/v1/files/{id}/content", tag="batches"
        ),
        *entries("DELETE", OPENAI, "/v1/files/{id}", tag="batches"),
        *entries("POST", OPENAI, "/v1/batches", tag="batches"),
        *entries("GET", OPENAI, "/v1/batches", "/v1/batches/{id}", tag="batches"),
        *entries("POST", OPENAI, "/v1/batches/{id}/cancel", tag="batches", by_fastapi=True),
    ],
}
"""The routes of each router, except of those at the start of a server."""
