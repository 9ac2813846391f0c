"""POST /vectors and Weaviate's other routes of a container that computes vectors."""

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from embedwell.errors import BadRequest
from embedwell.routes.common.body import Body, TextList, examples, input_list
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.dense_vectors import DenseVectorService, EmbedRequest
from embedwell.routes.common.response_body import Vector, Vectors, as_lists
from embedwell.routes.common.router import RequestDep, api_router, with_traits
from embedwell.routes.common.server_state import ServerState
from embedwell.routes.status import check_ready
from embedwell_models.outputs.names import DENSE, MULTI
from embedwell_models.read.prompts import Role

_ROLES: dict[str | None, Role] = {"query": "query", "passage": "document"}
_NO_CONTENT = 204


class VectorsConfig(Body):
    """Options of /vectors.

    - `task_type`: the role of the texts, whose prompt is used. Default: no role, and the model's
      default prompt.
    - `pooling_strategy`: sent by Weaviate; ignored, as the pooling is the model's.
    """

    pooling_strategy: str | None = None
    task_type: Literal["query", "passage"] | None = None
    dimensions: PositiveInt | None = None


class VectorsRequest(Body):
    """Request body of /vectors: one text, or several.

    - `dims`, `vector`, `error`: fields of the response, which Weaviate also sends; ignored.
    - `text`: a text to embed. Give one of `text` and `texts`.
    - `texts`: several texts to embed.
    - `config`: options of the vectors.
    """

    model_config = examples(
        {"text": "Hello, world", "config": {"task_type": "passage"}},
        {"texts": ["Hello, world", "A second text"], "config": {"pooling_strategy": "masked_mean"}},
    )

    input_fields = ("texts",)

    text: str | None = None
    texts: TextList | None = None
    config: VectorsConfig | None = None
    dims: int | None = None
    vector: None = None
    error: str | None = None

    def to_embed_request(self) -> EmbedRequest:
        """Convert to a request of /embed; raises BadRequest unless text or texts is set."""
        if (self.text is None) == (self.texts is None):
            raise BadRequest("give one of text and texts", param="text")
        config = self.config or VectorsConfig()
        return EmbedRequest(
            inputs=input_list([self.text] if self.texts is None else self.texts),
            on_overflow="end",
            input_type=_ROLES.get(config.task_type),
            dimensions=config.dimensions,
        )


@forbid_extra
class TextVector(TypedDict):
    """Response to a request with `text`.

    - `text`: the text of the request.
    - `vector`: the vector of the text.
    - `dim`: number of dimensions of the vector.
    """

    text: str
    vector: Vector
    dim: NonNegativeInt


@forbid_extra
class TextVectors(TypedDict):
    """Response to a request with `texts`.

    - `vectors`: the vectors of the texts, in the request's order.
    - `dims`: number of dimensions of each vector.
    """

    vectors: Vectors
    dims: NonNegativeInt


class WeaviateMeta(TypedDict):
    """Description of the models, which Weaviate shows among its modules."""

    model: str
    models: list[str]


def router(server: ServerState) -> APIRouter:
    """Create the routes of Weaviate's containers, except /rerank."""
    models = server.choice(DenseVectorService, DENSE, MULTI)
    routes = api_router("Weaviate")
    checks = with_traits(routes, without_key=True, is_health_check=True, is_monitoring=True)

    @routes.post("/vectors", summary="Embed a text (Weaviate)")
    async def weaviate_vectors(
        context: RequestDep, body: VectorsRequest
    ) -> TextVector | TextVectors:
        _, vectors = await models.choose().vectors(context, body.to_embed_request())
        dimensions = vectors.shape[1]
        if body.text is None:
            return {"vectors": as_lists(vectors), "dims": dimensions}
        return {"text": body.text, "vector": as_lists(vectors[0]), "dim": dimensions}

    @checks.get("/.well-known/live", include_in_schema=False)
    async def well_known_live() -> Response:
        return Response(status_code=_NO_CONTENT)

    @checks.get("/.well-known/ready", include_in_schema=False)
    async def well_known_ready() -> Response:
        check_ready(server.models, server.shutting_down)
        return Response(status_code=_NO_CONTENT)

    @routes.get("/meta", include_in_schema=False)
    async def meta() -> WeaviateMeta:
        names = [model.name for model in server.models]
        return {"model": names[0], "models": names}

    return routes
