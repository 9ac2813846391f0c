"""POST /api/embed, and /api/embeddings before it: Ollama's embeddings API."""

from dataclasses import dataclass
from typing import Any

from pydantic import PositiveInt

from service.api.body import Body, Texts, batch, example
from service.api.dialects import OVERFLOW
from service.api.embed import Embedding, EmbedRequest
from service.api.ollama_options import Options, check_options
from service.api.operation import Operation
from service.api.responses import ENGINE, Responses
from service.api.served import check_tagged
from service.api.shapes.common import OllamaError
from service.api.shapes.vendors import OllamaAnswer, OllamaEmbedding
from service.call import Call

_TAG = "Ollama"


class OllamaBody(Body):
    """What both routes share. keep_alive is not used: the model stays."""

    model: str
    options: Options | None = None
    keep_alive: float | str | None = None


class OllamaRequest(OllamaBody):
    """input: a text or texts, cut at the end where they are too long unless truncate is false.

    keep_alive is not used, and of options only num_ctx is looked at: what changes no vector may be
    sent.
    """

    model_config = example(
        {"model": "all-MiniLM-L6-v2:latest", "input": ["Hello", "world"], "truncate": False},
        {"model": "all-MiniLM-L6-v2", "input": "Hi", "options": {"seed": 7}, "keep_alive": "5m"},
        model="all-MiniLM-L6-v2",
        input="Hello, world",
    )

    input: Texts
    truncate: bool | None = None
    dimensions: PositiveInt | None = None


class OllamaPromptRequest(OllamaBody):
    """The same of one text; its vector keeps the length that the model gives it."""

    model_config = example(model="all-MiniLM-L6-v2", prompt="Hello, world")

    prompt: str


@dataclass(frozen=True)
class Ollama:
    """Sentence vectors in Ollama's words."""

    embedding: Embedding

    async def ollama(self, call: Call, body: OllamaRequest) -> Any:
        self._check(body)
        asked = EmbedRequest(
            inputs=batch(body.input),
            on_overflow=OVERFLOW[body.truncate is not False],
            dimensions=body.dimensions,
        )
        _, vectors = await self.embedding.vectors(call, asked)
        return {
            "model": body.model,
            "embeddings": vectors,
            "total_duration": call.total_us * 1000,
            "load_duration": 0,
            "prompt_eval_count": call.tokens,
        }

    async def ollama_prompt(self, call: Call, body: OllamaPromptRequest) -> Any:
        self._check(body)
        asked = EmbedRequest(inputs=body.prompt, normalize=False)
        _, (vector,) = await self.embedding.vectors(call, asked)
        return {"embedding": vector}

    def _check(self, body: OllamaBody) -> None:
        check_tagged(body.model, self.embedding.model)
        check_options(body.options or {}, self.embedding.pipeline.reader.tokenizer.max_length)


def operations(embedding: Embedding) -> list[Operation[Any]]:
    """The operations of this module."""
    ollama, errors = Ollama(embedding), (*ENGINE, 404)
    texts = Responses(OllamaAnswer, errors, OllamaError)
    text = Responses(OllamaEmbedding, errors, OllamaError)
    now, before = "Ollama embeddings", "Ollama's older embeddings, of one text"
    one = OllamaPromptRequest
    return [
        Operation("/api/embed", OllamaRequest, ollama.ollama, now, _TAG, texts, envelope=envelope),
        Operation(
            "/api/embeddings", one, ollama.ollama_prompt, before, _TAG, text, envelope=envelope
        ),
    ]


def envelope(content: dict[str, Any]) -> dict[str, Any]:
    """An error in Ollama's shape: its message, and the rest beside it."""
    rest = {name: content[name] for name in ("code", "param", "index", "request_id")}
    return {"error": content["message"], **rest}
