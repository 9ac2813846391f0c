"""Request body of /embed; other APIs for sentence vectors convert their requests to it."""

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt

from embedwell.api.array_format import EncodingFormat, OutputType
from embedwell.api.body import FAIL_FAST, Inputs, TrueByDefault, examples, input_list
from embedwell.api.options_body import InputBody

OutputName = Literal["dense", "sparse", "multi"]
"""Kind of vectors, as in embedwell_models.outputs.names."""
OutputNames = Annotated[list[OutputName], Field(min_length=1), FAIL_FAST]


class EmbedRequest(InputBody):
    """Request body of /embed.

    - `inputs`: a text, its token ids, an image, or a list of these.
    - `late_chunking`: the inputs are consecutive chunks of one text. Each chunk is embedded with
      the whole text as context.
    - `details`: describe each input in the response.
    - `partial`: return an error for each input that fails, and the vectors of the others.
    - `outputs`: names of the kinds of vectors to return for each input. The response then has
      details.
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

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> Self:
        """Build a request for texts with the default options."""
        return cls(inputs=input_list(texts))
