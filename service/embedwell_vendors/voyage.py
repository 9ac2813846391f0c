"""POST /v1/multimodalembeddings: Voyage's vectors of texts and images, and its fields."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field, NonNegativeInt, PositiveInt
from typing_extensions import TypedDict

from embedwell.http.error_responses import VOYAGE
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import FAIL_FAST, WHOLE, Body, examples
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.dense_vectors import DenseVectorService, EmbedRequest
from embedwell.routes.common.options import OVERFLOW, ROLES, NumberType
from embedwell.routes.common.request_inputs import ImageInput, Input, TextPart, input_of_parts
from embedwell.routes.common.response_body import EncodingFormat
from embedwell.routes.common.response_types import OpenAIEmbedding, openai_embeddings
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.server_state import ModelRegistry
from embedwell_models.outputs.names import DENSE, MULTI
from embedwell_models.read.inputs import InputRow
from embedwell_vendors.field_names import SameAs


class VoyageFields(Body):
    """Voyage's fields of /v1/embeddings.

    - `truncation`: Voyage's name of `truncate`: false refuses a text that is too long.
    - `output_dtype`: Voyage's name of the number type: `int8` and `uint8` are scaled by each
      vector's largest component, and `binary` and `ubinary` have one bit for each dimension, 8 in a
      byte. Default: `float`.
    """

    voyage_fields = frozenset({"truncation"})

    truncation: Annotated[bool | None, SameAs("truncate")] = None
    output_dtype: NumberType | None = None
    output_dimension: Annotated[Annotated[PositiveInt, WHOLE] | None, SameAs("dimensions")] = None


class VoyageImage(Body):
    """An image as a data URL, or in base64.

    - `type`: always `image_base64`.
    - `image_base64`: a PNG, JPEG, WebP or GIF as a data URL or in base64.
    """

    type: Literal["image_base64"]
    image_base64: str

    @property
    def value(self) -> ImageInput:
        """Return the image."""
        return ImageInput(image=self.image_base64)


class VoyageImageUrl(Body):
    """An image as a data URL.

    - `type`: always `image_url`.
    - `image_url`: a PNG, JPEG, WebP or GIF as a data URL; the server fetches no addresses.
    """

    type: Literal["image_url"]
    image_url: str

    @property
    def value(self) -> ImageInput:
        """Return the image."""
        return ImageInput(image=self.image_url)


VoyagePart = Annotated[TextPart | VoyageImage | VoyageImageUrl, Field(discriminator="type")]


class VoyageInput(Body):
    """An input of texts and images.

    - `content`: texts and images in the order in which the model reads them; they get one vector.
    """

    content: Annotated[list[VoyagePart], Field(min_length=1), FAIL_FAST]


class VoyageRequest(VoyageFields):
    """Request body of /v1/multimodalembeddings: inputs of texts and images.

    - `inputs`: the inputs, each of which gets one vector.
    - `input_type`: the role of the inputs, whose prompt is used. Default: no role, and the model's
      default prompt.
    - `truncation`: false refuses an input that is too long, and true cuts it off. Default: the
      server's setting.
    - `encoding_format`: `float` for numbers, or `base64` for the little-endian bytes of each
      vector. Default: `float`.
    - `output_encoding`: another name of `encoding_format`. Default: numbers.
    """

    model_config = examples(
        {
            "model": "all-MiniLM-L6-v2",
            "inputs": [{"content": [{"type": "text", "text": "Hello, world"}]}],
            "input_type": "document",
        }
    )

    voyage_fields = frozenset({"inputs"})

    input_fields = ("inputs",)

    inputs: Annotated[list[VoyageInput], FAIL_FAST]
    model: str | None = None
    input_type: Literal["query", "document"] | None = None
    encoding_format: EncodingFormat | None = None
    output_encoding: Literal["base64"] | None = None

    def to_embed_request(self) -> EmbedRequest:
        """Convert to a request of /embed."""
        dtype = self.output_dtype or "float"
        inputs: list[Input] = [input_of_parts(item.content) for item in self.inputs]
        return EmbedRequest(
            inputs=inputs,
            on_overflow=OVERFLOW[self.truncation],
            input_type=ROLES.get(self.input_type),
            dimensions=self.output_dimension,
            output_dtype="float32" if dtype == "float" else dtype,
            encoding_format=self.output_encoding or self.encoding_format or "float",
        )


@forbid_extra
class VoyageImageUsage(TypedDict):
    """Counts of a request.

    - `text_tokens`: number of tokens of the texts.
    - `total_tokens`: number of tokens of the texts and images.
    - `image_pixels`: number of pixels that the model reads, after preprocessing.
    - `video_pixels`: always 0, as no video is read.
    """

    text_tokens: NonNegativeInt
    image_pixels: NonNegativeInt
    video_pixels: Literal[0]
    total_tokens: NonNegativeInt


@forbid_extra
class VoyageResponse(TypedDict):
    """Response of /v1/multimodalembeddings.

    - `object`: always `list`.
    """

    object: Literal["list"]
    data: list[OpenAIEmbedding]
    model: str
    usage: VoyageImageUsage


def router(registry: ModelRegistry) -> APIRouter:
    """Create the route /v1/multimodalembeddings."""
    models = registry.choice(DenseVectorService, DENSE, MULTI)
    routes = api_router("OpenAI", error_format=VOYAGE)

    @routes.post("/v1/multimodalembeddings", summary="Embed texts and images (Voyage)")
    async def multimodal_embeddings(context: RequestDep, body: VoyageRequest) -> VoyageResponse:
        embedding = models.choose(body.model or None)
        request = body.to_embed_request()
        rows, vectors = await embedding.vectors(context, request, "output_dimension")
        return {
            "object": "list",
            "data": openai_embeddings(request.encode(vectors)),
            "model": embedding.model.name,
            "usage": _usage(rows, context),
        }

    return routes


def _usage(rows: Sequence[InputRow], context: RequestContext) -> VoyageImageUsage:
    images = [row for row in rows if row.image_tokens]
    return {
        "text_tokens": context.tokens - sum(row.tokens - row.text_tokens for row in images),
        "image_pixels": sum(row.image_pixels for row in images),
        "video_pixels": 0,
        "total_tokens": context.tokens,
    }
