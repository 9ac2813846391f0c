"""POST /tokenize and /decode: text to tokens and back, in TEI's shapes."""

from typing import Any

from pydantic import NonNegativeInt

from models.tokenizer import Token
from service.api.answers import BODY, Answers
from service.api.body import Body, Texts, example, texts_of
from service.api.operation import Operation
from service.api.shapes import TextToken
from service.call import Call
from service.limits import check_texts
from service.offsets import Bytes, bytes_of
from service.reader import Reader, Reading

Ids = list[NonNegativeInt]


class TokenizeRequest(Body):
    """inputs: a text or texts, read whole: nothing is truncated here."""

    model_config = example({"inputs": ["Hi"], "add_special_tokens": False}, inputs="Hello, world")

    inputs: Texts
    add_special_tokens: bool = True
    prompt_name: str | None = None


class DecodeRequest(Body):
    """ids: token ids of a text, or of several."""

    model_config = example(
        {"ids": [[101, 7592, 102]], "skip_special_tokens": False}, ids=[7592, 2088]
    )

    ids: Ids | list[Ids]
    skip_special_tokens: bool = True


def operations(reader: Reader, max_texts: int) -> list[Operation[Any]]:
    """The operations of this module."""

    async def tokenize(call: Call, body: TokenizeRequest) -> Any:
        texts = texts_of(body.inputs)
        check_texts(len(texts), max_texts)
        name = body.prompt_name
        prompt = reader.prompt(Reading(prompt_name=name)).text if name else ""
        special = body.add_special_tokens
        return [_describe(reader, prompt + text, special) for text in texts]

    async def decode(call: Call, body: DecodeRequest) -> Any:
        rows: Any = body.ids if all(isinstance(row, list) for row in body.ids) else [body.ids]
        check_texts(len(rows), max_texts)
        for index, row in enumerate(rows):
            reader.check(row, index)
        return reader.tokenizer.decode(rows, body.skip_special_tokens)

    tokens, texts = Answers(list[list[TextToken]], BODY), Answers(list[str], BODY)
    return [
        Operation("/tokenize", TokenizeRequest, tokenize, "Tokens of texts", "text", tokens),
        Operation("/decode", DecodeRequest, decode, "Texts of token ids", "text", texts),
    ]


def _describe(reader: Reader, text: str, special: bool) -> list[dict[str, Any]]:
    byte = bytes_of(text)
    return [_token(token, byte) for token in reader.tokenizer.tokens(text, special=special)]


def _token(token: Token, byte: Bytes) -> dict[str, Any]:
    return {
        "id": token.id,
        "text": token.text,
        "special": token.special,
        "start": byte(token.start),  # TEI's offsets are bytes
        "stop": byte(token.stop),
        "start_char": token.start,
        "stop_char": token.stop,
    }
