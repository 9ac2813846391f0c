"""The body of /v1/embeddings with the fields of other servers than OpenAI's, in any mixture."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Discriminator, Tag

from embedwell.errors import BadRequest
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import FAIL_FAST, by_type, examples, input_list
from embedwell.routes.common.dense_vectors import EmbedRequest, OutputNames
from embedwell.routes.common.options import ROLES, InputType, NumberType, TruncateWord
from embedwell.routes.common.request_inputs import ImageInput
from embedwell.routes.common.response_body import (
    BinaryResponse,
    EncodingFormat,
    OutputType,
    Vectors,
    encode_rows,
)
from embedwell.routes.common.response_types import Outputs, openai_embeddings
from embedwell.routes.common.server_state import ModelChoice
from embedwell.routes.embed import EmbedService
from embedwell.routes.jina import JinaEmbeddings
from embedwell.routes.openai import (
    OpenAIRequest,
    OpenAIResponse,
    OutputEmbeddings,
    openai_response,
)
from embedwell.routes.tokens import TokenVectorService
from embedwell_models.read.prompts import TASK_ROLES, Role
from embedwell_models.vectors import Floats, truncate_and_normalize
from embedwell_vendors.field_names import Excludes
from embedwell_vendors.jina_fields import InputsOrObjects, JinaFields
from embedwell_vendors.vllm_fields import VLLMEmbeddingFields
from embedwell_vendors.voyage import VoyageFields


def _truncate_kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return "<flag>"
    return "<word>" if value in get_args(TruncateWord) else None


Truncate = Annotated[
    Annotated[bool, Tag("<flag>")] | Annotated[TruncateWord, Tag("<word>")],
    Discriminator(
        _truncate_kind,
        custom_error_type="truncate",  # a Literal would accept 1 and 1.0 as true
        custom_error_message="Input should be true, false, 'NONE', 'START' or 'END'",
    ),
]

ModalityName = Literal["text", "image"]
Modality = Annotated[
    Annotated[ModalityName, Tag("<one>")] | Annotated[list[ModalityName], FAIL_FAST, Tag("<some>")],
    by_type({str: "<one>"}, "<some>"),
]


class EmbeddingsRequest(  # type: ignore[misc]  # vLLM's encoding_format has more values
    VLLMEmbeddingFields, JinaFields, VoyageFields, OpenAIRequest
):
    """Request body of /v1/embeddings, with OpenAI's fields and those of other servers.

    - `input`: a text, its token ids, an object with a text or an image, or a list of these.
    - `input_type`: the role of the texts, whose prompt is used; `passage` is NVIDIA's name of
      `document`. Default: no role, and the model's default prompt.
    - `prompt`, `prompt_name`: this server's, as at /embed: a text that is put before each input, or
      the name of one of the model's prompts. Default: the prompt of the role.
    - `truncate`: false or `NONE` refuses a text that is too long, true or `END` cuts off its end,
      and `START` its start. Default: the server's setting.
    - `modality`: NVIDIA's and Infinity's: whether inputs are texts or images in base64, for all
      inputs or one for each. Default: what each input is.
    - `drop_params`, `metadata`: sent by LiteLLM's and Mistral's clients; ignored.
    - `outputs`: this server's: kinds of vectors to return for each input, from one forward pass.
      Default: one dense vector.

    A request with two fields of the same meaning is rejected.
    """

    model_config = examples(
        {"input": ["Hello", "world"], "model": "all-MiniLM-L6-v2", "user": "someone"},
        {"input": "Hello, world", "encoding_format": "base64"},
        {"input": "Hello, world", "input_type": "query", "output_dtype": "int8"},
        {"input": [[101, 7592, 102]], "task": "retrieval.passage", "embedding_type": "float"},
        {"input": "Hello, world", "return_multivector": True, "embedding_type": "binary"},
        {"input": [{"text": "Hello, world"}], "truncate_prompt_tokens": 4, "dimensions": 0},
    )

    wider = ""

    input: InputsOrObjects | None = None  # type: ignore[assignment]  # with Jina's objects
    input_type: InputType | None = None
    prompt: Annotated[str | None, Excludes(("messages",))] = None
    prompt_name: Annotated[str | None, Excludes(("messages",))] = None
    truncate: Truncate | None = None
    modality: Modality | None = None
    drop_params: bool | None = None
    metadata: dict[str, Any] | None = None
    outputs: Annotated[OutputNames | None, Excludes(("return_multivector",))] = None

    async def respond(
        self, context: RequestContext, models: ModelChoice[EmbedService]
    ) -> OpenAIResponse | BinaryResponse:
        """Respond with the vectors of the inputs in the requested form; raises ServiceError."""
        service, role = models.choose_with_role(self.model or None, self.task)
        model = service.model
        request = self.to_embed_request(role, model.name, model.reads_messages)
        if request.outputs is not None:
            outputs = await service.outputs.compute(context, request, request.outputs)
            return openai_response(_by_input(outputs), model.name, context)
        max_length = model.reader.limited_length(self.max_length, "truncate_prompt_tokens")
        if self.return_multivector:
            multivectors = await _multivectors(context, request, max_length, service)
            return openai_response(multivectors, model.name, context)
        param = "dimensions" if self.output_dimension is None else "output_dimension"
        _, vectors = await service.dense.vectors(context, request, param, max_length)
        if self.wants_bytes:
            return self.bytes_response(context, model.name, list(self.binary(vectors)))
        data = openai_embeddings(self.encode(vectors, request))
        return openai_response(data, model.name, context)

    def to_embed_request(
        self, model_role: Role | None, model: str, reads_messages: bool = False
    ) -> EmbedRequest:
        """Convert to a request of /embed; raises BadRequest for contradictory fields.

        model_role: the role that a suffix of the model's name selects. model: the model's name,
        for errors. reads_messages: whether it reads texts in a chat template.
        """
        content = self.content(self.input, model, reads_messages)
        inputs: Any = content.input  # validation has replaced objects by texts or images
        dtype, encoding_format = self._output_format()
        self.check_exclusions()
        self.check_special_tokens()
        return EmbedRequest(
            inputs=inputs if self.modality is None else _with_modality(inputs, self.modality),
            **self.overflow(),
            prompt=content.instruction if self.prompt is None else self.prompt,
            prompt_name=self.prompt_name,
            input_type=self._role(model_role),
            task=self.task,
            dimensions=self.value("dimensions") or None,
            normalize=self.value("normalize") is not False,
            output_dtype=dtype,
            encoding_format=encoding_format,
            late_chunking=bool(self.late_chunking),
            outputs=self.outputs,
        )

    def _output_format(self) -> tuple[OutputType, EncodingFormat]:
        dtype: Literal[NumberType, "base64"] = self.value("output_dtype") or "float"
        if field := self.binary_field:
            self.value("output_dtype", "embed_dtype")
            self.check_without(field, "outputs", "return_multivector")
            if self.wants_bytes:
                self.check_without("encoding_format", "output_dtype")
            elif dtype != "float" or self.encoding_format != "base64":
                raise BadRequest(
                    f"{field} is of the numbers in base64 or bytes; send encoding_format base64, "
                    "too, or output_dtype in its place",
                    param=field,
                )
            return "float32", "base64"
        if dtype == "base64":
            self.value("embedding_type", "encoding_type", "encoding_format")
            return "float32", "base64"
        in_base64 = self.encoding_format == "base64"
        return "float32" if dtype == "float" else dtype, "base64" if in_base64 else "float"

    def encode(self, vectors: Floats, request: EmbedRequest) -> Vectors:
        """Encode the vectors of the inputs (B, D) as the fields say; raises NotFinite."""
        if not self.binary_field:
            return request.encode(vectors)
        return encode_rows(self.binary(vectors), "base64")

    def _role(self, model_role: Role | None) -> Role | None:
        candidates = (model_role, ROLES.get(self.input_type), TASK_ROLES.get(self.task or ""))
        roles = {role for role in candidates if role is not None}
        if len(roles) > 1:
            raise BadRequest(
                f"model, input_type and task select different roles, {sorted(roles)}; leave "
                "out all but one",
                param="task" if self.task else "input_type",
            )
        return next(iter(roles), None)


async def _multivectors(
    context: RequestContext,
    request: EmbedRequest,
    max_length: int | None,
    service: EmbedService,
) -> list[JinaEmbeddings]:
    """Compute a vector for each token: the model's own kind, or the states of the last layer."""
    inputs = input_list(request.inputs)
    options = request.input_options().with_max_length(max_length)
    if service.model.multi_vectors.offered:
        encoded = await service.outputs.multi_vector.encoded_vectors(
            context, inputs, options, request
        )
    else:
        states = await TokenVectorService(service.model).last_layer(context, inputs, options)
        encoded = [
            request.encode(truncate_and_normalize(each, None, request.normalize)) for each in states
        ]
    return [
        {"object": "embedding", "index": index, "embeddings": vectors}
        for index, vectors in enumerate(encoded)
    ]


def _by_input(outputs: Outputs) -> list[OutputEmbeddings]:
    """Return the result of each input, from the lists in a response of /embed."""
    data: list[OutputEmbeddings] = []
    for index in range(len(outputs["inputs"])):
        result: OutputEmbeddings = {"object": "embedding", "index": index}
        if "embeddings" in outputs:
            result["embedding"] = outputs["embeddings"][index]
        if "sparse" in outputs:
            result["sparse_embedding"] = outputs["sparse"][index]
        if "multi" in outputs:
            result["embeddings"] = outputs["multi"][index]
        data.append(result)
    return data


def _with_modality(inputs: Any, modality: Any) -> Any:
    """Convert the texts whose modality is image to images.

    Raises BadRequest if the modalities and inputs differ in number, or if an image is not a text.

    modality: one for all inputs, or one for each.
    """
    if isinstance(modality, str):
        modality = [modality] * (len(inputs) if isinstance(inputs, list) else 1)
    if "image" not in modality:
        return inputs
    items = inputs if isinstance(inputs, list) else [inputs]
    if len(items) != len(modality):
        raise BadRequest(
            f"modality has {len(modality)} entries for {len(items)} inputs; give one for each "
            "input",
            param="modality",
        )
    return [
        _as_image(item, index) if kind == "image" else item
        for index, (item, kind) in enumerate(zip(items, modality, strict=True))
    ]


def _as_image(item: Any, index: int) -> ImageInput:
    if isinstance(item, str):
        return ImageInput(image=item)
    if isinstance(item, ImageInput):
        return item
    raise BadRequest(
        f"input {index} is not an image; send a data URL or base64", param="modality", index=index
    )
