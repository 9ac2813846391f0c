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
    """inputs: a text or texts; or chunks: the consecutive chunks of each text.

    model: one of those that the server has; by default the first one that embeds.
    layer: number of layers to apply (all by default), or the model's input, or one of the parts
    of which it is the sum. spans: for each of inputs, [start, stop) in characters. Spans and chunks
    have one vector each, pooled over their tokens after the model has read the whole text (late
    chunking). layout: a vector in each token's object, or all vectors of a text in one block.
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
            raise BadRequest(f"layer is {layer}, the model has {config.num_layers}", param="layer")
        if isinstance(layer, str) and layer not in config.input_parts:
            parts = ", ".join(config.input_parts)
            raise BadRequest(f"the model's input has no {layer} part, but {parts}", param="layer")
        return layer


class EmbedAllRequest(InputBody):
    """TEI's request. inputs: a text, its token ids, or a list of either."""

    model_config = examples({"inputs": "Hello, world"}, {"inputs": [[101, 7592, 102], "one"]})

    inputs: Inputs
