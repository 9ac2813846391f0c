"""Request bodies: validated from raw bytes, documented in OpenAPI, unknown fields refused."""

from typing import Annotated, Any, Literal, TypeVar

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Tag

from service.call import Call
from service.reader import Reading, Text


class Body(BaseModel):
    """What every request body shares."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _shape(value: Any) -> str:
    if isinstance(value, str):
        return "<text>"
    if isinstance(value, list) and value and isinstance(value[0], int):
        return "<ids>"
    return "<batch>"


def _element(value: Any) -> str:
    return "<ids>" if isinstance(value, list) else "<text>"


Ids = list[int]
_Element = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Ids, Tag("<ids>")], Discriminator(_element)
]
Inputs = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[Ids, Tag("<ids>")]
    | Annotated[list[_Element], Tag("<batch>")],
    Discriminator(_shape),
]
"""A text, its token ids, or a list of either."""


def batch(inputs: Any) -> list[Text]:
    """Inputs as a list of texts and token ids."""
    return [inputs] if _shape(inputs) != "<batch>" else inputs


def _many(value: Any) -> str:
    return "<text>" if isinstance(value, str) else "<texts>"


Texts = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[list[str], Tag("<texts>")], Discriminator(_many)
]
"""A text or a list of texts."""


def texts_of(inputs: str | list[str]) -> list[str]:
    """Inputs as a list of texts."""
    return [inputs] if isinstance(inputs, str) else inputs


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


class ReadingBody(Body):
    """The fields that say how texts are read."""

    truncate: bool | None = None
    truncation_direction: Annotated[Literal["right", "left"], BeforeValidator(_lower)] = "right"
    prompt_name: str | None = None
    prompt: str | None = None

    def reading(self) -> Reading:
        return Reading(self.truncate, self.truncation_direction, self.prompt, self.prompt_name)


B = TypeVar("B", bound=Body)


async def parse(request: Request, model: type[B]) -> B:
    """The body of a request; raises ValidationError, or TooLarge from the edge."""
    return model.model_validate_json(await request.body())


def call_of(request: Request) -> Call:
    """The account of this request that its headers and metrics are made of."""
    call: Call = request.state.call
    return call


def answer(content: Any) -> Response:
    """JSON; numpy arrays are written straight from their buffers."""
    return Response(
        orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json"
    )


def accepts(model: type[Body]) -> dict[str, Any]:
    """The OpenAPI description of a body that `parse` reads."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the definitions that bodies share moved to its components."""
    found = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    shared = found.setdefault("components", {}).setdefault("schemas", {})
    for path in found["paths"].values():
        for operation in path.values():
            content = operation.get("requestBody", {}).get("content", {})
            for media in content.values():
                shared.update(media["schema"].pop("$defs", {}))
    return found
