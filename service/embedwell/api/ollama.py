"""POST /api/embed and the older /api/embeddings: Ollama's embeddings API."""

import sys
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter

from embedwell.api.body import Body, Texts, examples, input_list
from embedwell.api.dense_vector_service import DenseVectorService
from embedwell.api.embed_request import EmbedRequest
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openai_fields import OVERFLOW
from embedwell.api.openapi_responses import route_responses
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.ollama import OllamaAnswer, OllamaEmbedding
from embedwell.errors import BadRequest
from embedwell.request.limits import check_max_length
from embedwell.request.request_context import RequestContext


class OllamaBody(Body):
    """Fields of both routes.

    - `keep_alive`: ignored, as the server's settings decide when a model is unloaded.
    - `options`: `num_ctx` is the maximum tokens of a text. Other and unknown options are ignored,
      as in Ollama.
    """

    model: str
    options: dict[str, Any] | None = None
    keep_alive: float | str | None = None

    def num_ctx(self) -> int:
        """Return the maximum tokens of a text, 0 for the model's limit; raises BadRequest."""
        num_ctx = (self.options or {}).get("num_ctx") or 0
        if isinstance(num_ctx, bool) or not isinstance(num_ctx, int | float):
            raise BadRequest("options.num_ctx must be a number of tokens", param="options.num_ctx")
        return int(min(max(0, num_ctx), sys.maxsize))  # JSON's 1e999 is infinite


class OllamaRequest(OllamaBody):
    """Request body of /api/embed.

    - `input`: a text or a list of texts.
    - `truncate`: if false, a text that is too long is an error. Otherwise its end is cut off.
    - `dimensions`: all dimensions if the value is not positive, or not below the model's number.
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

    input: Texts
    truncate: bool | None = None
    dimensions: int | None = None


class OllamaPromptRequest(OllamaBody):
    """Request body of /api/embeddings.

    - `prompt`: one text, whose vector is not normalised.
    """

    model_config = examples({"model": "all-MiniLM-L6-v2", "prompt": "Hello, world"})

    prompt: str


@dataclass(frozen=True)
class OllamaService:
    """Computes sentence vectors for Ollama's routes."""

    embedding: DenseVectorService

    async def embed(self, context: RequestContext, body: OllamaRequest) -> Any:
        """Respond to /api/embed."""
        max_length, dimensions = self._num_ctx(body), body.dimensions or 0
        shorter = 0 < dimensions < self.embedding.dimensions.full
        request = EmbedRequest(
            inputs=input_list(body.input),
            on_overflow=OVERFLOW[body.truncate is not False],
            dimensions=dimensions if shorter else None,
        )
        _, vectors = await self.embedding.vectors(context, request, max_length=max_length)
        return {
            "model": body.model,
            "embeddings": vectors,
            "total_duration": context.total_us * 1000,
            "load_duration": 0,
            "prompt_eval_count": context.tokens,
        }

    async def embed_prompt(self, context: RequestContext, body: OllamaPromptRequest) -> Any:
        """Respond to /api/embeddings."""
        max_length = self._num_ctx(body)
        request = EmbedRequest(inputs=body.prompt, normalize=False)
        _, (vector,) = await self.embedding.vectors(context, request, max_length=max_length)
        return {"embedding": vector}

    def _num_ctx(self, body: OllamaBody) -> int | None:
        """Return num_ctx if it is below the model's limit, else None."""
        num_ctx, tokenizer = body.num_ctx(), self.embedding.pipeline.reader.tokenizer
        if not 0 < num_ctx < tokenizer.max_length:
            return None
        check_max_length(num_ctx, tokenizer, "options.num_ctx")
        return num_ctx


def router(models: ModelChoice[DenseVectorService]) -> APIRouter:
    """Create the routes of this module."""
    routes, responses = api_router("Ollama"), route_responses()

    @routes.post(
        "/api/embed",
        summary="Create embeddings (Ollama)",
        response_model=OllamaAnswer,
        responses=responses,
        name="ollama",
    )
    async def embed(context: Context, body: OllamaRequest) -> Any:
        return await OllamaService(models.choose_tagged(body.model)).embed(context, body)

    @routes.post(
        "/api/embeddings",
        summary="Create the embedding of one text (Ollama's older route)",
        response_model=OllamaEmbedding,
        responses=responses,
        name="ollama_prompt",
    )
    async def embed_prompt(context: Context, body: OllamaPromptRequest) -> Any:
        ollama = OllamaService(models.choose_tagged(body.model))
        return await ollama.embed_prompt(context, body)

    return routes
