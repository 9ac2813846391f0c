"""POST /api/embed and the older /api/embeddings: Ollama's embeddings API."""

import sys
from functools import partial
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.compute.served_model import ServedModel
from embedwell.errors import BadRequest
from embedwell.http.error_responses import OLLAMA
from embedwell.routes.common.body import Body, Texts, examples, input_list
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.dense_vectors import DenseVectorService, EmbedRequest
from embedwell.routes.common.options import OVERFLOW
from embedwell.routes.common.response_body import Matrix, as_lists
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.server_state import ModelRegistry
from embedwell_models.outputs.names import DENSE, MULTI


class OllamaBody(Body):
    """Fields of both routes.

    - `model`: name of a served model, with or without the tag `latest`.
    - `stream`: ignored, because there is one response.
    - `keep_alive`: ignored, as the server's settings decide when a model is unloaded.
    - `options`: `num_ctx` is the maximum tokens of a text. Other and unknown options are ignored,
      as in Ollama.
    """

    model: str
    options: dict[str, Any] | None = None
    keep_alive: float | str | None = None
    stream: bool | None = None

    def num_ctx(self) -> int:
        """Return the maximum tokens of a text, 0 for the model's limit; raises BadRequest."""
        num_ctx = (self.options or {}).get("num_ctx") or 0
        if isinstance(num_ctx, bool) or not isinstance(num_ctx, int | float):
            raise BadRequest("options.num_ctx must be a number of tokens", param="options.num_ctx")
        return int(min(max(0, num_ctx), sys.maxsize))  # JSON's 1e999 is infinite


class OllamaRequest(OllamaBody):
    """Request body of /api/embed.

    - `input`: a text or a list of texts.
    - `truncate`: whether the end of a text that is too long is cut off instead of rejected.
      Default: true.
    - `dimensions`: number of dimensions that are kept of each vector; all if it is not positive, or
      not below the model's number.
    """

    model_config = examples(
        {"model": "all-MiniLM-L6-v2", "input": "Hello, world"},
        {"model": "all-MiniLM-L6-v2:latest", "input": ["Hello", "world"], "truncate": False},
        {
            "model": "all-MiniLM-L6-v2",
            "input": "Hi",
            "options": {"num_ctx": 64},
            "keep_alive": "5m",
        },
    )

    input_fields = ("input",)

    input: Texts
    truncate: bool | None = None
    dimensions: int | None = None


class OllamaPromptRequest(OllamaBody):
    """Request body of /api/embeddings.

    - `prompt`: the text to embed; its vector is not normalised.
    """

    model_config = examples({"model": "all-MiniLM-L6-v2", "prompt": "Hello, world"})

    prompt: str


@forbid_extra
class OllamaResponse(TypedDict):
    """Response of /api/embed. Durations are in nanoseconds.

    - `load_duration`: always 0, as the model is loaded before the request is computed.
    - `model`: name of the model, as in the request.
    - `total_duration`: time from the request's arrival to its response.
    - `prompt_eval_count`: number of tokens of the request.
    """

    model: str
    embeddings: Matrix
    total_duration: NonNegativeInt
    load_duration: Literal[0]
    prompt_eval_count: NonNegativeInt


@forbid_extra
class OllamaEmbedding(TypedDict):
    """Response of /api/embeddings.

    - `embedding`: the vector, which is not normalised.
    """

    embedding: list[float]


def router(registry: ModelRegistry) -> APIRouter:
    """Create the routes /api/embed and /api/embeddings."""
    # Ollama has no limit of texts, and its clients send thousands at once.
    models = registry.choice(partial(DenseVectorService, any_count=True), DENSE, MULTI)
    routes = api_router("Ollama", error_format=OLLAMA, base_path="/api/")

    @routes.post("/api/embed", summary="Create embeddings (Ollama)")
    async def ollama(context: RequestDep, body: OllamaRequest) -> OllamaResponse:
        embedding, dimensions = models.choose_tagged(body.model), body.dimensions or 0
        shorter = 0 < dimensions < embedding.model.dimensions.full
        request = EmbedRequest(
            inputs=input_list(body.input),
            on_overflow=OVERFLOW[body.truncate is not False],
            dimensions=dimensions if shorter else None,
        )
        max_length = _max_length(body, embedding.model)
        _, vectors = await embedding.vectors(context, request, max_length=max_length)
        return {
            "model": body.model,
            "embeddings": as_lists(vectors),
            "total_duration": context.total_us * 1000,
            "load_duration": 0,
            "prompt_eval_count": context.tokens,
        }

    @routes.post(
        "/api/embeddings", summary="Create the embedding of one text (Ollama's older route)"
    )
    async def ollama_prompt(context: RequestDep, body: OllamaPromptRequest) -> OllamaEmbedding:
        embedding = models.choose_tagged(body.model)
        request = EmbedRequest(inputs=body.prompt, normalize=False)
        max_length = _max_length(body, embedding.model)
        _, (vector,) = await embedding.vectors(context, request, max_length=max_length)
        return {"embedding": as_lists(vector)}

    return routes


def _max_length(body: OllamaBody, model: ServedModel) -> int | None:
    """Return num_ctx if it is below the model's limit, else None."""
    num_ctx = body.num_ctx()
    if not 0 < num_ctx < model.reader.max_length:
        return None
    model.reader.check_max_length(num_ctx, "options.num_ctx")
    return num_ctx
