"""How the vectors of tokens, spans and chunks are laid out in an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from models.vectors import Floats, normalize
from service.api.array_format import (
    JSON,
    Array,
    Encoding,
    OutputType,
    Raw,
    block,
    convert,
    express,
    only_json,
    preferred,
    raw,
)
from service.errors import BadRequest
from service.request.request_context import RequestContext


@dataclass(frozen=True, slots=True)
class Found:
    """What one input gave. name: of `items`, each of which tells of one row of `vectors`.

    about: what else is told of the input.
    """

    name: str
    items: list[dict[str, Any]]
    vectors: Floats
    about: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Layout:
    """block: all vectors of an input in one array, instead of each with its token."""

    block: bool
    normalized: bool
    dtype: OutputType
    encoding: Encoding

    def lay(self, found: Found, index: int) -> dict[str, Any]:
        """The result of an input."""
        values = self._values(found, index)
        if self.block:
            shown = {"shape": values.shape, "embeddings": block(values, self.encoding)}
            return {found.name: found.items, **shown, **found.about}
        rows = zip(found.items, express(values, self.encoding), strict=True)
        items = [{**item, "embedding": vector} for item, vector in rows]
        return {found.name: items, **found.about}

    def raw(self, context: RequestContext, all_found: Sequence[Found]) -> Raw | None:
        """The vectors of the one input as bytes, if the client takes those; raises BadRequest."""
        if preferred(context.accept) == JSON:
            return None
        only_json(context, layout=self.block, encoding_format=self.encoding != "float")
        if len(all_found) > 1:
            raise BadRequest(
                "the token vectors of several texts have no one shape: send one text at a time, "
                "or accept application/json with layout block"
            )
        return raw(context, self._values(all_found[0], 0))

    def _values(self, found: Found, index: int) -> Array:
        vectors = normalize(found.vectors) if self.normalized else found.vectors
        return convert(vectors, self.dtype, index)
