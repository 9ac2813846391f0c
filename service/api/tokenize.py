"""POST /tokenize and /decode: text to tokens and back, in TEI's shapes."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Discriminator, NonNegativeInt, Tag

from models.errors import UnsplittableTextError
from models.tokenizer.cooperative import Steps
from models.tokenizer.tokenizer import Token
from service.api.body import FIRST, Body, On, PromptBody, Texts, example, texts_of
from service.api.openapi_responses import BODY, documented
from service.api.router import Context, api_router
from service.api.schemas.tokens import TextToken
from service.inputs.offsets import ByteOffsets, byte_offsets
from service.inputs.options import InputOptions
from service.inputs.reader import InputReader
from service.request.limits import check_texts, check_tokens, unsplittable_text
from service.request.run_in_thread import run_in_thread

_CHARACTER = 200  # bytes for each character of a text, of which a token has about four
_SMALL = 2048  # token ids, decoded in a millisecond

Ids = Annotated[list[NonNegativeInt], FIRST]


def _kind(value: Any) -> str:
    one = isinstance(value, list) and value and not isinstance(value[0], list)
    return "<ids>" if one else "<rows>"


class TokenizeRequest(PromptBody):
    """inputs: a text or texts, read whole with the prompt before it: nothing is truncated here.

    Offsets count the prompt. input_type: the role whose prompt is taken.
    """

    model_config = example({"inputs": ["Hi"], "add_special_tokens": False}, inputs="Hello, world")

    inputs: Texts
    add_special_tokens: On = True


class DecodeRequest(Body):
    """ids: token ids of a text, or of several."""

    model_config = example(
        {"ids": [[101, 7592, 102]], "skip_special_tokens": False}, ids=[7592, 2088]
    )

    ids: Annotated[
        Annotated[Ids, Tag("<ids>")] | Annotated[list[Ids], FIRST, Tag("<rows>")],
        Discriminator(_kind),
    ]
    skip_special_tokens: On = True


def router(reader: InputReader, max_texts: int, max_tokens: int) -> APIRouter:
    """The routes of this module."""
    routes, responses = api_router("text"), documented(BODY)

    @routes.post(
        "/tokenize",
        summary="Tokens of texts",
        response_model=list[list[TextToken]],
        responses=responses,
    )
    async def tokenize(context: Context, body: TokenizeRequest) -> Any:
        texts = texts_of(body.inputs)
        check_texts(len(texts), max_texts)
        asked = InputOptions(prompt=body.prompt, prompt_name=body.prompt_name, role=body.input_type)
        special, prompt = body.add_special_tokens, reader.prompt(asked).text
        steps = _listed(reader, texts, prompt, special, max_tokens)
        size = sum(map(len, texts)) + len(texts) * len(prompt)
        context.memory.grow(_CHARACTER * size)
        return await reader.run(context, steps, size, size)

    @routes.post(
        "/decode", summary="Texts of token ids", response_model=list[str], responses=responses
    )
    async def decode(context: Context, body: DecodeRequest) -> Any:
        rows: Any = body.ids if _kind(body.ids) == "<rows>" else [body.ids]
        check_texts(len(rows), max_texts)
        check_tokens(sum(map(len, rows)), max_tokens)
        for index, row in enumerate(rows):
            reader.check_ids(row, index)
        work = partial(reader.tokenizer.decode, rows, body.skip_special_tokens)
        return await run_in_thread(work, sum(map(len, rows)) <= _SMALL)

    return routes


def _listed(
    reader: InputReader, texts: Sequence[str], prompt: str, special: bool, most: int
) -> Steps[list[list[dict[str, Any]]]]:
    total, found = 0, []
    for index, text in enumerate(texts):
        whole, tokens = prompt + text, list[Token]()
        try:
            for piece in reader.tokenizer.pieces(whole, special=special):
                tokens += piece
                total += len(piece)
                check_tokens(total, most)
                yield
        except UnsplittableTextError as error:
            raise unsplittable_text(error, index) from None
        byte = byte_offsets(whole, tokens)
        found.append([_token(token, byte) for token in tokens])
    return found


def _token(token: Token, byte: ByteOffsets) -> dict[str, Any]:
    return {
        "id": token.id,
        "text": token.text,
        "special": token.special,
        "start": byte[token.start],  # TEI's offsets are bytes
        "stop": byte[token.stop],
        "start_char": token.start,
        "stop_char": token.stop,
    }
