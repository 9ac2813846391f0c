"""vLLM's fields of requests for vectors: of the numbers in a response, and of all else."""

import json
import time
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from embedwell.errors import BadRequest
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import FAIL_FAST
from embedwell.routes.common.options import OVERFLOW, TokenLimit
from embedwell.routes.common.response_body import (
    BYTES,
    Array,
    BinaryResponse,
    BinaryType,
    EncodingFormat,
    binary_values,
)
from embedwell.routes.common.response_types import token_usage
from embedwell.routes.common.vllm_fields import Conversation, Message, VLLMFields, conversation
from embedwell_models.tokenizer.tokens import Side
from embedwell_models.vectors import Floats
from embedwell_vendors.field_names import Excludes, SameAs, SharedBody


class BinaryFields(VLLMFields):
    """Fields for the numbers of a response.

    - `encoding_format`: `float` for numbers, or `base64` for their bytes. vLLM's `bytes` and
      `bytes_only` respond with the bytes of all results, one after another; with `bytes` the header
      `metadata` has the place and shape of each result, which is too long for most clients beyond
      some hundreds of inputs. Default: `float`.
    - `embed_dtype`: vLLM's number type of base64 and bytes. Default: float32.
    - `endianness`: vLLM's order of the bytes of a number in base64 and bytes. Default: little.
    """

    encoding_format: Literal[EncodingFormat, "bytes", "bytes_only"] | None = None
    embed_dtype: BinaryType | None = None
    endianness: Literal["native", "little", "big"] | None = None

    @property
    def wants_bytes(self) -> bool:
        """Whether the response is bytes, not JSON."""
        return self.encoding_format in ("bytes", "bytes_only")

    @property
    def binary_field(self) -> str:
        """The field that asks for bytes, or for other numbers than float32; "" for none."""
        if self.wants_bytes:
            return "encoding_format"
        if self.embed_dtype not in (None, "float32"):
            return "embed_dtype"
        return "endianness" if self.endianness == "big" else ""

    def binary(self, rows: Floats) -> Array:
        """Convert rows (B, D) to the numbers whose bytes are sent; raises NotFinite."""
        big_endian = self.endianness == "big"
        return binary_values(rows, self.embed_dtype or "float32", big_endian=big_endian)

    def bytes_response(
        self, context: RequestContext, model: str, results: Sequence[Array]
    ) -> BinaryResponse:
        """Build a response of bytes. results: what `binary` returns, for each input.

        model: its name, for the header.
        """
        body = b"".join(each.tobytes() for each in results)
        if self.encoding_format == "bytes_only":
            return BinaryResponse(BYTES, body, [])
        metadata = {
            "id": context.id,
            "created": int(time.time()),
            "model": model,
            "data": self._places(results),
            "usage": token_usage(context),
        }
        return BinaryResponse(BYTES, body, [(b"metadata", json.dumps(metadata).encode())])

    def _places(self, results: Sequence[Array]) -> list[dict[str, object]]:
        """Describe the place of each result in the bytes."""
        places: list[dict[str, object]] = []
        start = 0
        for index, result in enumerate(results):
            end = start + result.nbytes
            places.append(
                {
                    "index": index,
                    "embed_dtype": self.embed_dtype or "float32",
                    "endianness": self.endianness or "native",
                    "start": start,
                    "end": end,
                    "shape": result.shape,
                }
            )
            start = end
        return places


class VLLMEmbeddingFields(BinaryFields, SharedBody):
    """vLLM's fields of requests for vectors.

    - `messages`: vLLM's, in place of `input`: one message with one text or one image, or a
      conversation for a model that reads its texts in a chat template.
    - `add_generation_prompt`, `continue_final_message`: vLLM's, for such a model: the start of the
      reply is part of its format with each of them, and without.
    - `normalize`, `use_activation`: whether each vector is scaled to length 1. Default: true.
    - `truncate_prompt_tokens`: vLLM's maximum of tokens of an input, beyond which it is cut; -1 is
      the model's limit. Default: the model's limit.
    - `add_special_tokens`: vLLM's; must be true, because texts always get the model's special
      tokens.
    """

    input_fields: ClassVar[Sequence[str]] = ("input", "messages")

    messages: Annotated[list[Message], FAIL_FAST] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    truncate_prompt_tokens: Annotated[
        TokenLimit, SameAs("truncate"), Excludes(("late_chunking", "outputs"))
    ] = None
    truncation_side: Side | None = None
    add_special_tokens: bool | None = None
    normalize: bool | None = None
    use_activation: Annotated[bool | None, SameAs("normalize")] = None

    @property
    def max_length(self) -> int | None:
        """The requested maximum of tokens per input; None for the model's."""
        return None if self.truncate_prompt_tokens == -1 else self.truncate_prompt_tokens

    def content(self, inputs: Any, model: str, reads_messages: bool) -> Conversation:
        """Return the inputs or the content of messages; raises BadRequest unless one is set.

        model: the model's name, for errors. reads_messages: whether it reads texts in a chat
        template.
        """
        if self.messages is None:
            if inputs is None:
                raise BadRequest("input: Field required", param="input")
            return Conversation(inputs)
        if inputs is not None:
            raise BadRequest("give either input or messages, not both", param="messages")
        self._check_template(reads_messages)
        return conversation(self.messages, model, reads_messages)

    def _check_template(self, reads_messages: bool) -> None:
        if self.add_generation_prompt and self.continue_final_message:
            raise BadRequest(
                "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
                param="add_generation_prompt",
            )
        for field in ("add_generation_prompt", "continue_final_message"):
            if getattr(self, field) and not reads_messages:
                raise BadRequest(
                    f"{field} is for a model that reads texts in a chat template; leave it out",
                    code="not_offered",
                    param=field,
                )

    def check_special_tokens(self) -> None:
        """Raise BadRequest for texts without special tokens."""
        if self.add_special_tokens is False:
            raise BadRequest(
                "add_special_tokens must be true: texts always get the model's special "
                "tokens; send token ids to leave them out",
                code="not_offered",
                param="add_special_tokens",
            )

    def overflow(self) -> dict[str, Any]:
        """Return fields of /embed for texts that are too long; raises BadRequest."""
        if self.truncate_prompt_tokens is None:
            return {"on_overflow": OVERFLOW[self.value("truncate", "truncation_side")]}
        self.value("truncate")
        return {"truncate": True, "truncation_direction": self.truncation_side}
