"""Fields of vLLM's API for the numbers of a response: their type, and their bytes."""

import json
import time
from collections.abc import Sequence
from typing import Literal

from embedwell.http.request_context import RequestContext
from embedwell.routes.common.options import VLLMFields
from embedwell.routes.common.response_body import (
    BYTES,
    Array,
    BinaryResponse,
    BinaryType,
    EncodingFormat,
    binary_values,
)
from embedwell.routes.common.response_types import token_usage
from embedwell_models.vectors import Floats


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
