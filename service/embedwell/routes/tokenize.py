"""Convert texts to tokens and back: POST /tokenize and /decode in TEI's format, and Cohere's."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Discriminator, NonNegativeInt, Tag
from typing_extensions import TypedDict

from embedwell.compute.request_reader import RequestReader
from embedwell.errors import BadRequest
from embedwell.http.error_responses import OPENAI
from embedwell.http.request_context import RequestContext
from embedwell.routes.cohere import CohereVersion
from embedwell.routes.common.body import FAIL_FAST, Body, Texts, TrueByDefault, examples, text_list
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.openapi_responses import BODY_ERRORS
from embedwell.routes.common.options import PromptBody
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.server_state import ModelRegistry
from embedwell.routes.common.vllm_fields import VLLMFields
from embedwell_models.read.inputs import InputOptions
from embedwell_models.read.spans import ByteOffsets, byte_offsets
from embedwell_models.tokenizer.tokens import Token

_BYTES_PER_CHARACTER = 200  # maximum of a response; a token has about four characters
TokenIds = Annotated[list[NonNegativeInt], FAIL_FAST]


def _ids_kind(value: Any) -> str:
    flat = isinstance(value, list) and value and not isinstance(value[0], list)
    return "<ids>" if flat else "<rows>"


class TokenizeRequest(PromptBody, VLLMFields):
    """Request body of /tokenize.

    - `inputs`: a text or a list of texts. Each gets the prompt; nothing is truncated, and offsets
      count from the prompt's start.
    - `input_type`: the role whose prompt is used.
    - `model`: name of a served model. Default: the server's first one.
    - `prompt`: a text that is put in front of each of `inputs`; without `inputs`, vLLM's name of a
      single text, with vLLM's response.
    - `add_special_tokens`: whether the model's special tokens, such as `[CLS]`, are added. Default:
      true.
    - `return_token_strs`: whether vLLM's response has the tokens' texts, too. Default: false.
    """

    model_config = examples(
        {"inputs": "Hello, world"}, {"inputs": ["Hi"], "add_special_tokens": False}
    )

    input_fields = ("inputs",)

    inputs: Texts | None = None
    model: str | None = None
    add_special_tokens: TrueByDefault = True
    return_token_strs: bool | None = None


class DecodeRequest(Body):
    """Request body of /decode.

    - `ids`: token ids of a text, or of several texts.
    - `model`: name of a served model. Default: the server's first one.
    - `skip_special_tokens`: whether special tokens such as `[CLS]` are left out of the texts.
      Default: true.
    """

    model_config = examples(
        {"ids": [7592, 2088]}, {"ids": [[101, 7592, 102]], "skip_special_tokens": False}
    )

    input_fields = ("ids",)

    ids: Annotated[
        Annotated[TokenIds, Tag("<ids>")] | Annotated[list[TokenIds], FAIL_FAST, Tag("<rows>")],
        Discriminator(_ids_kind),
    ]
    model: str | None = None
    skip_special_tokens: TrueByDefault = True


@forbid_extra
class TextToken(TypedDict):
    """A token of a text in TEI's format. The offsets are null for a special token.

    - `id`: id of the token in the vocabulary.
    - `text`: the token's part of the text, or its name if it is special.
    - `special`: whether the model adds the token, such as `[CLS]`.
    - `start`: first byte of the token in the text in UTF-8, from 0.
    - `stop`: byte after the last one of the token.
    - `start_char`: first character of the token in the text, from 0.
    - `stop_char`: character after the last one of the token.
    """

    id: NonNegativeInt
    text: str
    special: bool
    start: NonNegativeInt | None
    stop: NonNegativeInt | None
    start_char: NonNegativeInt | None
    stop_char: NonNegativeInt | None


@forbid_extra
class VLLMTokens(TypedDict):
    """Tokens of a text in vLLM's format.

    - `max_model_len`: maximum tokens of a text.
    - `token_strs`: text of each token, if the request has `return_token_strs`; otherwise null.
    - `count`: number of tokens.
    - `tokens`: ids of the tokens.
    """

    count: NonNegativeInt
    max_model_len: NonNegativeInt
    tokens: list[NonNegativeInt]
    token_strs: list[str] | None


class DetokenizeRequest(VLLMFields):
    """Request body of /detokenize: the token ids of a text.

    - `tokens`: ids of the tokens of one text.
    """

    model_config = examples({"tokens": [7592, 2088], "model": "all-MiniLM-L6-v2"})

    tokens: TokenIds
    model: str | None = None


@forbid_extra
class VLLMText(TypedDict):
    """Response of /detokenize.

    - `prompt`: the decoded text.
    """

    prompt: str


def router(registry: ModelRegistry) -> APIRouter:
    """Create the routes /tokenize, /decode and /detokenize."""
    models = registry.choice(lambda model: model.reader)
    routes = api_router("tokens", (*BODY_ERRORS, 404))

    @routes.post("/tokenize", summary="Tokenize texts")
    async def tokenize(
        context: RequestDep, body: TokenizeRequest
    ) -> list[list[TextToken]] | VLLMTokens:
        reader = models.choose(body.model, body.task)
        if body.inputs is None:
            return await _tokenize_as_vllm(context, reader, body)
        return await reader.all_tokens(
            *(context, text_list(body.inputs), body.prompt_options()),
            special=body.add_special_tokens,
            describe=_described,
            bytes_per_character=_BYTES_PER_CHARACTER,
        )

    @routes.post("/decode", summary="Decode token ids to texts")
    async def decode(context: RequestDep, body: DecodeRequest) -> list[str]:
        rows: Any = body.ids if _ids_kind(body.ids) == "<rows>" else [body.ids]
        return await models.choose(body.model).decode(rows, body.skip_special_tokens)

    @routes.post("/detokenize", summary="Decode token ids (vLLM)")
    async def detokenize(context: RequestDep, body: DetokenizeRequest) -> VLLMText:
        [text] = await models.choose(body.model).decode([body.tokens], skip_special=False)
        return {"prompt": text}

    return routes


async def _tokenize_as_vllm(
    context: RequestContext, reader: RequestReader, body: TokenizeRequest
) -> VLLMTokens:
    if body.prompt is None:
        raise BadRequest("inputs: Field required", param="inputs")
    [tokens] = await reader.all_tokens(
        *(context, [body.prompt], InputOptions(prompt="")),
        special=body.add_special_tokens,
        describe=lambda _text, tokens: tokens,
        bytes_per_character=_BYTES_PER_CHARACTER,
    )
    return {
        "count": len(tokens),
        "max_model_len": reader.max_length,
        "tokens": [token.id for token in tokens],
        "token_strs": [token.text for token in tokens] if body.return_token_strs else None,
    }


def _described(prompted: str, tokens: list[Token]) -> list[TextToken]:
    to_byte = byte_offsets(prompted, tokens)
    return [_as_json(token, to_byte) for token in tokens]


def _as_json(token: Token, to_byte: ByteOffsets) -> TextToken:
    return {
        "id": token.id,
        "text": token.text,
        "special": token.special,
        "start": to_byte[token.start],  # TEI's offsets count bytes
        "stop": to_byte[token.stop],
        "start_char": token.start,
        "stop_char": token.stop,
    }


_COHERE_BYTES_PER_CHARACTER = 50  # maximum of a response; a token has about four characters


class CohereTokenizeRequest(Body):
    """Request body of /v1/tokenize. The tokens have no prompt and no special tokens.

    - `text`: the text to split into tokens.
    """

    model_config = examples({"text": "Hello, world", "model": "all-MiniLM-L6-v2"})

    text: str
    model: str | None = None


class CohereDetokenizeRequest(Body):
    """Request body of /v1/detokenize.

    - `tokens`: ids of the tokens of one text.
    """

    model_config = examples({"tokens": [7592, 2088], "model": "all-MiniLM-L6-v2"})

    tokens: TokenIds
    model: str | None = None


@forbid_extra
class CohereTokensMeta(TypedDict):
    """Description of a request.

    - `api_version`: version of Cohere's API.
    """

    api_version: CohereVersion


@forbid_extra
class CohereTokens(TypedDict):
    """The tokens of a text.

    - `tokens`: ids of the tokens.
    - `token_strings`: the text of each token.
    """

    tokens: list[NonNegativeInt]
    token_strings: list[str]
    meta: CohereTokensMeta


@forbid_extra
class Detokenized(TypedDict):
    """The text of token ids.

    - `text`: the decoded text.
    """

    text: str
    meta: CohereTokensMeta


_META: CohereTokensMeta = {"api_version": {"version": "1"}}


def cohere_router(registry: ModelRegistry) -> APIRouter:
    """Create the routes /v1/tokenize and /v1/detokenize."""
    models = registry.choice(lambda model: model.reader)
    routes = api_router("Cohere", (*BODY_ERRORS, 404), OPENAI)

    @routes.post("/v1/tokenize", summary="Tokenize a text (Cohere)")
    async def cohere_tokenize(context: RequestDep, body: CohereTokenizeRequest) -> CohereTokens:
        [response] = await models.choose(body.model).all_tokens(
            *(context, [body.text], InputOptions(prompt="")),
            special=False,
            describe=_as_cohere,
            bytes_per_character=_COHERE_BYTES_PER_CHARACTER,
        )
        return response

    @routes.post("/v1/detokenize", summary="Decode token ids (Cohere)")
    async def cohere_detokenize(context: RequestDep, body: CohereDetokenizeRequest) -> Detokenized:
        rows = [body.tokens]
        [text] = await models.choose(body.model).decode(rows, skip_special=True)
        return {"text": text, "meta": _META}

    return routes


def _as_cohere(_text: str, tokens: list[Token]) -> CohereTokens:
    return {
        "tokens": [token.id for token in tokens],
        "token_strings": [token.text for token in tokens],
        "meta": _META,
    }
