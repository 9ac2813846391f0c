"""POST /api/embed, and /api/embeddings before it: Ollama's embeddings API."""

import sys
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter

from service.api.body import Body, Texts, batch, example
from service.api.embed import Embedding, EmbedRequest
from service.api.openai_request import OVERFLOW
from service.api.openapi_responses import ENGINE, documented
from service.api.router import Context, api_router
from service.api.schemas.ollama import OllamaAnswer, OllamaEmbedding
from service.errors import BadRequest
from service.request.limits import check_length
from service.request.request_context import RequestContext


class OllamaBody(Body):
    """What both routes share. keep_alive is not used: the model stays.

    options: only num_ctx counts, the most tokens of a text; unknown ones pass, as in Ollama.
    """

    model: str
    options: dict[str, Any] | None = None
    keep_alive: float | str | None = None

    def num_ctx(self) -> int:
        """The most tokens of a text; 0: as many as the model reads. Raises BadRequest."""
        asked = (self.options or {}).get("num_ctx") or 0
        if isinstance(asked, bool) or not isinstance(asked, int | float):
            raise BadRequest("options.num_ctx must be a number of tokens", param="options.num_ctx")
        return int(min(max(0, asked), sys.maxsize))  # JSON's 1e999 is infinite


class OllamaRequest(OllamaBody):
    """input: a text or texts, cut at the end where they are too long unless truncate is false.

    dimensions: what is not less than the model has, or not positive, is all of them.
    """

    model_config = example(
        {"model": "all-MiniLM-L6-v2:latest", "input": ["Hello", "world"], "truncate": False},
        {
            "model": "all-MiniLM-L6-v2",
            "input": "Hi",
            "options": {"num_ctx": 64},
            "keep_alive": "5m",
        },
        model="all-MiniLM-L6-v2",
        input="Hello, world",
    )

    input: Texts
    truncate: bool | None = None
    dimensions: int | None = None


class OllamaPromptRequest(OllamaBody):
    """The same of one text; its vector keeps the length that the model gives it."""

    model_config = example(model="all-MiniLM-L6-v2", prompt="Hello, world")

    prompt: str


@dataclass(frozen=True)
class Ollama:
    """Sentence vectors in Ollama's words."""

    embedding: Embedding

    async def embed(self, context: RequestContext, body: OllamaRequest) -> Any:
        length, dimensions = self._check(body), body.dimensions or 0
        shorter = 0 < dimensions < self.embedding.dimensions.full
        asked = EmbedRequest(
            inputs=batch(body.input),
            on_overflow=OVERFLOW[body.truncate is not False],
            dimensions=dimensions if shorter else None,
        )
        _, vectors = await self.embedding.vectors(context, asked, length=length)
        return {
            "model": body.model,
            "embeddings": vectors,
            "total_duration": context.total_us * 1000,
            "load_duration": 0,
            "prompt_eval_count": context.tokens,
        }

    async def embed_prompt(self, context: RequestContext, body: OllamaPromptRequest) -> Any:
        length = self._check(body)
        asked = EmbedRequest(inputs=body.prompt, normalize=False)
        _, (vector,) = await self.embedding.vectors(context, asked, length=length)
        return {"embedding": vector}

    def _check(self, body: OllamaBody) -> int | None:
        """The most tokens of a text, if fewer than the model reads."""
        self.embedding.names.check_tagged(body.model)
        asked, tokenizer = body.num_ctx(), self.embedding.pipeline.reader.tokenizer
        if not 0 < asked < tokenizer.max_length:
            return None
        check_length(asked, tokenizer, "options.num_ctx")
        return asked


def router(embedding: Embedding) -> APIRouter:
    """The routes of this module."""
    routes, ollama, responses = (
        api_router("Ollama"),
        Ollama(embedding),
        documented((*ENGINE, 404)),
    )

    @routes.post(
        "/api/embed",
        summary="Ollama embeddings",
        response_model=OllamaAnswer,
        responses=responses,
        name="ollama",
    )
    async def embed(context: Context, body: OllamaRequest) -> Any:
        return await ollama.embed(context, body)

    @routes.post(
        "/api/embeddings",
        summary="Ollama's older embeddings, of one text",
        response_model=OllamaEmbedding,
        responses=responses,
        name="ollama_prompt",
    )
    async def embed_prompt(context: Context, body: OllamaPromptRequest) -> Any:
        return await ollama.embed_prompt(context, body)

    return routes
