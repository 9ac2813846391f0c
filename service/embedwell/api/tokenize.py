"""POST /tokenize and /decode: convert texts to tokens and back, in TEI's format."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Discriminator, NonNegativeInt, Tag

from embedwell.api.body import FAIL_FAST, Body, Texts, TrueByDefault, examples, text_list
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import BODY_ERRORS, route_responses
from embedwell.api.options_body import PromptBody
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.tokens import TextToken
from embedwell.inputs.offsets import ByteOffsets, byte_offsets
from embedwell.inputs.reader import InputReader
from embedwell.request.limits import check_input_count, check_tokens, unsplittable_text_error
from embedwell.request.run_in_thread import run_in_thread
from embedwell_models.errors import UnsplittableTextError
from embedwell_models.tokenizer.cooperative import Cooperative
from embedwell_models.tokenizer.tokenizer import Token

_BYTES_PER_CHARACTER = 200  # maximum of a response; a token has about four characters
_FEW_IDS = 2048  # decoding so many takes a millisecond

TokenIds = Annotated[list[NonNegativeInt], FAIL_FAST]


def _ids_kind(value: Any) -> str:
    flat = isinstance(value, list) and value and not isinstance(value[0], list)
    return "<ids>" if flat else "<rows>"


class TokenizeRequest(PromptBody):
    """Request body of /tokenize.

    - `inputs`: a text or a list of texts. Each gets the prompt; nothing is truncated, and offsets
      count from the prompt's start.
    - `input_type`: the role whose prompt is used.
    - `model`: name of a served model. Default: the server's first one.
    """

    model_config = examples(
        {"inputs": "Hello, world"}, {"inputs": ["Hi"], "add_special_tokens": False}
    )

    inputs: Texts
    model: str | None = None
    add_special_tokens: TrueByDefault = True


class DecodeRequest(Body):
    """Request body of /decode.

    - `ids`: token ids of a text, or of several texts.
    - `model`: name of a served model. Default: the server's first one.
    """

    model_config = examples(
        {"ids": [7592, 2088]}, {"ids": [[101, 7592, 102]], "skip_special_tokens": False}
    )

    ids: Annotated[
        Annotated[TokenIds, Tag("<ids>")] | Annotated[list[TokenIds], FAIL_FAST, Tag("<rows>")],
        Discriminator(_ids_kind),
    ]
    model: str | None = None
    skip_special_tokens: TrueByDefault = True


def router(models: ModelChoice[InputReader], max_texts: int, max_tokens: int) -> APIRouter:
    """Create the routes of this module."""
    routes, responses = api_router("text"), route_responses((*BODY_ERRORS, 404))

    @routes.post(
        "/tokenize",
        summary="Tokenize texts",
        response_model=list[list[TextToken]],
        responses=responses,
    )
    async def tokenize(context: Context, body: TokenizeRequest) -> Any:
        reader, texts = models.choose(body.model, body.task), text_list(body.inputs)
        check_input_count(len(texts), max_texts)
        special, prompt = body.add_special_tokens, reader.before_text(body.prompt_options())
        steps = _tokenize(reader, texts, prompt, special, max_tokens)
        size = sum(map(len, texts)) + len(texts) * len(prompt)
        context.memory.grow(_BYTES_PER_CHARACTER * size)
        return await reader.run_steps(context, steps, size, size)

    @routes.post(
        "/decode",
        summary="Decode token ids to texts",
        response_model=list[str],
        responses=responses,
    )
    async def decode(context: Context, body: DecodeRequest) -> Any:
        reader = models.choose(body.model)
        rows: Any = body.ids if _ids_kind(body.ids) == "<rows>" else [body.ids]
        total = sum(map(len, rows))
        check_input_count(len(rows), max_texts)
        check_tokens(total, max_tokens)
        for index, row in enumerate(rows):
            reader.check_ids(row, index)
        work = partial(reader.tokenizer.decode, rows, body.skip_special_tokens)
        return await run_in_thread(work, total <= _FEW_IDS)

    return routes


def _tokenize(
    reader: InputReader, texts: Sequence[str], prompt: str, special: bool, max_tokens: int
) -> Cooperative[list[list[dict[str, Any]]]]:
    total, results = 0, []
    for index, text in enumerate(texts):
        prompted, tokens = prompt + text, list[Token]()
        try:
            for chunk in reader.tokenizer.token_chunks(prompted, special=special):
                tokens += chunk
                total += len(chunk)
                check_tokens(total, max_tokens)
                yield
        except UnsplittableTextError as error:
            raise unsplittable_text_error(error, index) from None
        to_byte = byte_offsets(prompted, tokens)
        results.append([_as_json(token, to_byte) for token in tokens])
    return results


def _as_json(token: Token, to_byte: ByteOffsets) -> dict[str, Any]:
    return {
        "id": token.id,
        "text": token.text,
        "special": token.special,
        "start": to_byte[token.start],  # TEI's offsets count bytes
        "stop": to_byte[token.stop],
        "start_char": token.start,
        "stop_char": token.stop,
    }
