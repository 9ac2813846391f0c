"""POST /v1/tokenize and /v1/detokenize: texts as tokens and back, in Cohere's format."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import NonNegativeInt
from typing_extensions import TypedDict

from embedwell.http.error_body import OpenAIError, forbid_extra
from embedwell.inputs.options import InputOptions
from embedwell.routes.cohere import CohereVersion
from embedwell.routes.common.body import FAIL_FAST, Body, examples
from embedwell.routes.common.model_registry import ModelRegistry
from embedwell.routes.common.openapi_responses import BODY_ERRORS, route_responses
from embedwell.routes.common.router import RequestDep, api_router
from embedwell_models.tokenizer.tokenizer import Token

_BYTES_PER_CHARACTER = 50  # maximum of a response; a token has about four characters


class CohereTokenizeRequest(Body):
    """Request body of /v1/tokenize. The tokens have no prompt and no special tokens."""

    model_config = examples({"text": "Hello, world", "model": "all-MiniLM-L6-v2"})

    text: str
    model: str | None = None


class CohereDetokenizeRequest(Body):
    """Request body of /v1/detokenize."""

    model_config = examples({"tokens": [7592, 2088], "model": "all-MiniLM-L6-v2"})

    tokens: Annotated[list[NonNegativeInt], FAIL_FAST]
    model: str | None = None


@forbid_extra
class CohereTokensMeta(TypedDict):
    api_version: CohereVersion


@forbid_extra
class CohereTokens(TypedDict):
    tokens: list[NonNegativeInt]
    token_strings: list[str]
    meta: CohereTokensMeta


@forbid_extra
class Detokenized(TypedDict):
    text: str
    meta: CohereTokensMeta


_META: CohereTokensMeta = {"api_version": {"version": "1"}}


def router(registry: ModelRegistry) -> APIRouter:
    """Create the routes /v1/tokenize and /v1/detokenize."""
    models = registry.choice(lambda model: model.reader)
    routes = api_router("Cohere")
    responses = route_responses((*BODY_ERRORS, 404), error_schema=OpenAIError)

    @routes.post("/v1/tokenize", summary="Tokenize a text (Cohere)", responses=responses)
    async def cohere_tokenize(context: RequestDep, body: CohereTokenizeRequest) -> CohereTokens:
        [tokens] = await models.choose(body.model).all_tokens(
            *(context, [body.text], InputOptions(prompt="")),
            special=False,
            describe=_described,
            bytes_per_character=_BYTES_PER_CHARACTER,
        )
        return {
            "tokens": [id for id, _ in tokens],
            "token_strings": [name for _, name in tokens],
            "meta": _META,
        }

    @routes.post("/v1/detokenize", summary="Decode token ids (Cohere)", responses=responses)
    async def cohere_detokenize(context: RequestDep, body: CohereDetokenizeRequest) -> Detokenized:
        rows = [body.tokens]
        [text] = await models.choose(body.model).decode(rows, skip_special=True)
        return {"text": text, "meta": _META}

    return routes


def _described(_text: str, tokens: list[Token]) -> list[tuple[int, str]]:
    return [(token.id, token.text) for token in tokens]
