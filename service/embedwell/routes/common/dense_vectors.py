"""Sentence vectors for every API: the request to which each is converted, and its service."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, PositiveInt

from embedwell.compute.pipeline import ItemResult
from embedwell.compute.served_model import ServedModel
from embedwell.errors import BadRequest, ServiceError, service_errors
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import (
    FAIL_FAST,
    Body,
    Inputs,
    TrueByDefault,
    examples,
    input_list,
)
from embedwell.routes.common.options import (
    OPTION_FIELDS,
    InputBody,
    ReadingBody,
    refuse_fields_outside_parameters,
)
from embedwell.routes.common.request_inputs import Input
from embedwell.routes.common.response_body import (
    EncodingFormat,
    OutputType,
    Vectors,
    convert_vectors,
    encode_rows,
)
from embedwell.routes.common.response_types import Details, describe_request
from embedwell_models.errors import DimensionsError, TooManyDimensionsError
from embedwell_models.outputs.names import DENSE, MAX_POOL_FACTOR, MUVERA_LIMITS
from embedwell_models.read.inputs import InputRow
from embedwell_models.vectors import Floats, truncate_and_normalize

if TYPE_CHECKING:
    from embedwell_models.encoder.muvera import Muvera

_OTHER_DIMENSIONS = "the operator can allow more with EMBEDWELL_DIMENSIONS"

OutputName = Literal["dense", "sparse", "multi"]
"""Kind of vectors, as in embedwell_models.outputs.names."""
OutputNames = Annotated[list[OutputName], Field(min_length=1), FAIL_FAST]


PoolFactor = Annotated[int, Field(ge=1, le=MAX_POOL_FACTOR)]
"""Divisor of the number of a document's token vectors."""


class MuveraOptions(Body):
    """Options of MUVERA's encodings, by the names and with the defaults of fastembed.

    - `k_sim`: number of hyperplanes, which part the space into 2^k_sim clusters.
    - `dim_proj`: dimensions of a cluster, at most those of a token's vector.
    - `r_reps`: repetitions with other hyperplanes.
    - `seed`: of the random numbers.
    """

    k_sim: Annotated[int, Field(ge=1, le=MUVERA_LIMITS["k_sim"])] = 5
    dim_proj: Annotated[int, Field(ge=1, le=MUVERA_LIMITS["dim_proj"])] = 16
    r_reps: Annotated[int, Field(ge=1, le=MUVERA_LIMITS["r_reps"])] = 20
    seed: Annotated[int, Field(ge=0, lt=1 << 32)] = 42

    def encoder(self, dim: int) -> "Muvera":
        """Build the encoder for token vectors of `dim` dimensions; raises BadRequest."""
        from embedwell_models.encoder.muvera import Muvera

        with service_errors():
            return Muvera(dim, self.k_sim, self.dim_proj, self.r_reps, self.seed)


class EmbedParameters(ReadingBody):
    """Fields of /embed that Hugging Face's clients put into an object."""

    normalize: TrueByDefault = True
    dimensions: PositiveInt | None = None


class EmbedRequest(InputBody):
    """Request body of /embed.

    - `inputs`: a text, its token ids, an image, a text with images, or a list of these.
    - `late_chunking`: the inputs are consecutive chunks of one text, each of which is embedded with
      the whole text as context. Default: false.
    - `details`: whether the response is an object with the model, the prompt, times and token
      counts, instead of the vectors alone. Default: false.
    - `partial`: whether an input that fails gets an error of its own, and the others their vectors.
      Default: false.
    - `outputs`: kinds of vectors to return for each input, from one forward pass; the response then
      has details. Default: one dense vector.
    - `pool_factor`: divisor of the number of a document's token vectors, of which similar ones
      become their mean. Default: 1.
    - `muvera`: options of MUVERA, for one vector in place of an input's token vectors, whose
      product with that of a query approximates MaxSim.
    - `parameters`: Hugging Face's object for fields that the request can also have itself.
    """

    model_config = examples(
        {"inputs": ["Hello, world", "A second text"], "details": True},
        {"inputs": "Hello, world"},
        {"inputs": [101, 7592, 102], "encoding_format": "base64", "output_dtype": "int8"},
        {"inputs": ["a long text", ""], "on_overflow": "mean", "partial": True},
        {"inputs": ["One chunk.", "And another."], "late_chunking": True, "prompt": "text: "},
        {"inputs": "Hello, world", "outputs": ["dense"]},
    )

    inputs: Inputs
    normalize: TrueByDefault = True
    dimensions: PositiveInt | None = None
    encoding_format: EncodingFormat = "float"
    output_dtype: OutputType = "float32"
    late_chunking: bool = False
    details: bool = False
    partial: bool = False
    outputs: OutputNames | None = None
    pool_factor: PoolFactor = 1
    muvera: MuveraOptions | None = None
    parameters: EmbedParameters | None = None

    def with_parameters(self) -> Self:
        """Return the request with the fields of `parameters`; raises BadRequest for one in both."""
        if self.parameters is None:
            return self
        names = self.parameters.model_fields_set
        refuse_fields_outside_parameters(self, names)
        fields = {name: getattr(self.parameters, name) for name in names}
        return self.model_copy(update={**fields, "parameters": None})

    @classmethod
    def of_inputs(
        cls, inputs: Sequence[Input], options: ReadingBody | None = None, **fields: Any
    ) -> Self:
        """Build a request for inputs, with the options that another body sets."""
        given = options.model_dump(include={*OPTION_FIELDS}, exclude_unset=True) if options else {}
        listed: list[Input] = [inputs] if isinstance(inputs, str) else [*inputs]
        return cls(inputs=listed, **given, **fields)

    def encode(self, vectors: Floats) -> Vectors:
        """Encode vectors (B, D) in the requested number type and format; raises NotFinite."""
        return encode_rows(convert_vectors(vectors, self.output_dtype), self.encoding_format)


@dataclass(frozen=True)
class DenseVectorService:
    """Computes sentence vectors for every API, whose requests are converted to an EmbedRequest.

    any_count: whether requests may have any number of inputs.
    """

    model: ServedModel
    any_count: bool = False

    async def vectors(
        self,
        context: RequestContext,
        body: EmbedRequest,
        dimensions_param: str = "dimensions",
        max_length: int | None = None,
    ) -> tuple[list[InputRow], Floats]:
        """Compute the inputs' vectors, truncated and normalised as the body requests: (B, D).

        Returns the tokenized inputs, too.

        dimensions_param: the client's name for the field `dimensions`, for error messages.
        max_length: maximum tokens of an input; ignored for late chunking.
        """
        self.check_offered([DENSE], body.dimensions, dimensions_param)
        if body.late_chunking:
            rows, vectors = _stack(await self._embed_chunks(context, body))
        else:
            inputs = input_list(body.inputs)
            options = body.input_options(count_dropped=body.details)
            options.max_length, options.any_count = max_length, self.any_count
            context.memory.grow_by_numbers(len(inputs) * self.model.dimensions.full)
            self.model.pipeline.check_outputs([DENSE])
            rows = await self.model.reader.read(context, inputs, options)
            vectors = await self.model.pipeline.dense(context, rows)
        return rows, truncate_and_normalize(vectors, body.dimensions, body.normalize)

    async def results(self, context: RequestContext, body: EmbedRequest) -> list[ItemResult]:
        """Compute each input's vector or error; without truncation and scaling."""
        self.check_offered([DENSE], body.dimensions)
        if body.late_chunking:
            return await self._embed_chunks(context, body)
        self.model.pipeline.check_outputs([DENSE])
        options, inputs = body.input_options(count_dropped=True), input_list(body.inputs)
        context.memory.grow_by_numbers(len(inputs) * self.model.dimensions.full)
        rows = await self.model.reader.read_partial(context, inputs, options)
        return await self.model.pipeline.dense_partial(context, rows)

    def details(self, context: RequestContext, body: EmbedRequest, dimensions: int) -> Details:
        """Describe the request, its prompt and the model."""
        prompt = self.model.reader.resolve_prompt(body.input_options())
        return {
            "model": self.model.name,
            "dimensions": dimensions,
            **describe_request(context, prompt),
        }

    def check_offered(
        self, names: Sequence[str], dimensions: int | None, param: str = "dimensions"
    ) -> None:
        """Raise BadRequest for dimensions, but first for an output that the model lacks.

        Without dimensions, the outputs are checked before inputs are read.
        """
        if dimensions is not None:
            self.model.pipeline.check_outputs(names)
            try:
                self.model.dimensions.check(dimensions, param, _OTHER_DIMENSIONS)
            except TooManyDimensionsError as error:
                raise BadRequest(str(error), code="too_many_dimensions", param=param) from None
            except DimensionsError as error:
                raise BadRequest(str(error), code="dimensions_not_offered", param=param) from None

    async def _embed_chunks(self, context: RequestContext, body: EmbedRequest) -> list[ItemResult]:
        pipeline, recipe = self.model.pipeline, self.model.description.recipe
        pipeline.check_outputs([DENSE])
        if not recipe.has_late_chunking:
            raise BadRequest(
                "late_chunking needs a model with mean pooling alone; send chunks to /tokens "
                "instead",
                code="not_offered",
                param="late_chunking",
            )
        chunks, options = _chunk_texts(body.inputs), body.options_without_windows()
        size = sum(map(len, chunks))
        document = await self.model.reader.read_chunks(context, chunks, options, size)
        return await pipeline.chunks(context, document, self.model.config.num_layers)


def _chunk_texts(inputs: Any) -> list[str]:
    chunks = input_list(inputs)
    for index, chunk in enumerate(chunks):
        if not isinstance(chunk, str):
            raise BadRequest(
                f"input {index} is not a text; late_chunking accepts texts only",
                param="late_chunking",
                index=index,
            )
    return [str(chunk) for chunk in chunks]


def _stack(results: Sequence[ItemResult]) -> tuple[list[InputRow], Floats]:
    """Return the rows, and their vectors (B, D); raises the first error."""
    pairs = []
    for result in results:
        if isinstance(result, ServiceError):
            raise result
        pairs.append(result)
    return [row for row, _ in pairs], np.stack([vector for _, vector in pairs])
