"""POST /tokenize and /decode: text to tokens and back, in TEI's shapes."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import NonNegativeInt

from models.tokenizer import Token
from service.api.body import Body, Texts, accepts, answer, parse, texts_of
from service.limits import check_texts
from service.reader import Reader, Reading

Ids = list[NonNegativeInt]


class TokenizeRequest(Body):
    """inputs: a text or texts, read whole: nothing is truncated here."""

    inputs: Texts
    add_special_tokens: bool = True
    prompt_name: str | None = None


class DecodeRequest(Body):
    """ids: token ids of a text, or of several."""

    ids: Ids | list[Ids]
    skip_special_tokens: bool = True


def router(reader: Reader, max_texts: int) -> APIRouter:
    """The routes of this module."""
    routes = APIRouter(tags=["text"])

    @routes.post("/tokenize", summary="Tokens of texts", openapi_extra=accepts(TokenizeRequest))
    async def tokenize(request: Request) -> Response:
        body = await parse(request, TokenizeRequest)
        texts = texts_of(body.inputs)
        check_texts(len(texts), max_texts)
        prompt = reader.prompt(Reading(prompt_name=body.prompt_name)) if body.prompt_name else ""
        special = body.add_special_tokens
        return answer([_describe(reader, prompt + text, special) for text in texts])

    @routes.post("/decode", summary="Texts of token ids", openapi_extra=accepts(DecodeRequest))
    async def decode(request: Request) -> Response:
        body = await parse(request, DecodeRequest)
        rows: Any = body.ids if all(isinstance(row, list) for row in body.ids) else [body.ids]
        check_texts(len(rows), max_texts)
        for index, row in enumerate(rows):
            reader.check(row, index)
        return answer(reader.tokenizer.decode(rows, body.skip_special_tokens))

    return routes


def _describe(reader: Reader, text: str, special: bool) -> list[dict[str, Any]]:
    byte = _bytes(text)
    return [_token(token, byte) for token in reader.tokenizer.tokens(text, special=special)]


def _bytes(text: str) -> Callable[[int | None], int | None]:
    """From a character's index to the index of its first UTF-8 byte."""
    borders = list(accumulate((len(char.encode()) for char in text), initial=0))
    return lambda index: None if index is None else borders[index]


def _token(token: Token, byte: Callable[[int | None], int | None]) -> dict[str, Any]:
    return {
        "id": token.id,
        "text": token.text,
        "special": token.special,
        "start": byte(token.start),  # TEI's offsets are bytes
        "stop": byte(token.stop),
        "start_char": token.start,
        "stop_char": token.stop,
    }
