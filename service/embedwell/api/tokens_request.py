"""Request bodies of /tokens and /embed_all."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, NonNegativeInt, Tag

from embedwell.api.array_format import EncodingFormat, OutputType
from embedwell.api.body import FAIL_FAST, Inputs, Texts, examples
from embedwell.api.options_body import InputBody, ReadingBody
from embedwell.errors import BadRequest
from embedwell.inputs.span_pooling import SpanPooling
from embedwell.inputs.spans import Span
from embedwell_models.config.encoder_config import EncoderConfig


def _layer_kind(value: Any) -> str:
    return "<part>" if isinstance(value, str) else "<count>"


InputPart = Literal["input", "token", "position", "segment"]
Layer = Annotated[
    Annotated[NonNegativeInt, Tag("<count>")] | Annotated[InputPart, Tag("<part>")],
    Discriminator(_layer_kind),
]
Spans = Annotated[list[Span], FAIL_FAST]


class TokensRequest(ReadingBody):
    """Request body of /tokens.

    - `inputs`: a text or a list of texts; or `chunks`: for each text, the list of its consecutive
      chunks.
    - `model`: name of a served model. Default: the first one that embeds.
    - `layer`: number of layers to apply (default: all), or `input` or one of its parts.
    - `spans`: for each of `inputs`, a list of [start, stop) in characters.
    - `layout`: a vector in each token's object, or all vectors of a text in one block.

    Each span or chunk gets one vector. It is pooled over the tokens of the span or chunk after the
    model has read the whole text (late chunking).
    """

    model_config = examples(
        {"inputs": "Hello, world", "spans": [[[0, 5]]]},
        {"inputs": ["one", "two"], "layer": 0, "layout": "block", "encoding_format": "base64"},
        {"chunks": [["One chunk.", "And another."]], "pooling": "max", "normalize": True},
    )

    inputs: Texts | None = None
    model: str | None = None
    chunks: Annotated[list[Annotated[list[str], FAIL_FAST]], FAIL_FAST] | None = None
    layer: Layer | None = None
    spans: Annotated[list[Spans], FAIL_FAST] | None = None
    pooling: SpanPooling = "mean"
    normalize: bool = False
    encoding_format: EncodingFormat = "float"
    output_dtype: OutputType = "float32"
    layout: Literal["tokens", "block"] = "tokens"

    def checked_layer(self, config: EncoderConfig) -> int | str:
        """Return the number of layers or a part of the input; raises BadRequest."""
        layer = self.layer
        if layer is None:
            return config.num_layers
        if layer == "input":
            return 0
        if isinstance(layer, int) and layer > config.num_layers:
            raise BadRequest(
                f"layer is {layer}, but the model has {config.num_layers} layers", param="layer"
            )
        if isinstance(layer, str) and layer not in config.input_parts:
            parts = ", ".join(config.input_parts)
            raise BadRequest(
                f"layer is {layer}, but the parts of the model's input are {parts}", param="layer"
            )
        return layer


class EmbedAllRequest(InputBody):
    """Request body of /embed_all, in TEI's format.

    - `inputs`: a text, its token ids, or a list of either.
    """

    model_config = examples({"inputs": "Hello, world"}, {"inputs": [[101, 7592, 102], "one"]})

    inputs: Inputs
