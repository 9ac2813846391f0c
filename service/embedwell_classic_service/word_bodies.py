"""Requests and responses of /neighbors, /analogy and /doesnt_match."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt
from typing_extensions import TypedDict

from embedwell.errors import BadRequest
from embedwell.routes.common.body import TextList, Texts, examples
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.options import OPTION_FIELDS, InputBody
from embedwell_models.read.inputs import InputOptions

MAX_NEIGHBORS = 1000
"""Maximum number of neighbours in one list."""
_Candidates = Annotated[TextList, Field(min_length=1)]
_Count = Annotated[int, Field(ge=1, le=MAX_NEIGHBORS)]


class SearchBody(InputBody):
    """Fields of a search for neighbours.

    - `candidates`: texts to search, at least one. Default: the words of a model that is a word
      table.
    - `k`: number of neighbours, from 1 to 1000. Default: 10.

    The fields for prompts and long texts need candidates.
    """

    candidates: _Candidates | None = None
    k: _Count = 10

    def search_options(self) -> InputOptions:
        """Build the tokenization options; raises BadRequest for options that need candidates."""
        if self.candidates is not None:
            return self.input_options()
        if fields := sorted(self.model_fields_set & OPTION_FIELDS):
            raise BadRequest(
                f"{fields[0]} needs candidates; add candidates, or leave {fields[0]} out",
                param=fields[0],
            )
        return InputOptions(prompt="")


class NeighborsRequest(SearchBody):
    """Request body of /neighbors.

    - `inputs`: a text or a list of texts. The neighbours of a text never include its own words.
    - `metric`: how vectors are compared. Default: `cosine`.
    """

    model_config = examples(
        {"inputs": ["wheat", "iron"], "candidates": ["a cereal", "a metal", "a colour"], "k": 1},
        {"inputs": "wheat", "candidates": ["rust of wheat", "iron oxide"], "metric": "dot"},
    )

    input_fields = ("inputs", "candidates")

    inputs: Texts
    metric: Literal["cosine", "dot", "euclidean"] = "cosine"


class AnalogyRequest(SearchBody):
    """Request body of /analogy.

    - `positive`: texts whose vectors are added, at least one; for example king and woman, to find
      queen.
    - `negative`: texts whose vectors are subtracted, for example man. Default: none.
    - `method`: 3CosAdd is the cosine with the sum of unit vectors, 3CosMul the product of the
      cosines.
    """

    model_config = examples(
        {
            "positive": ["king", "woman"],
            "negative": ["man"],
            "candidates": ["queen", "prince"],
            "k": 1,
        }
    )

    input_fields = ("candidates", "positive", "negative")

    positive: Annotated[TextList, Field(min_length=1)]
    negative: TextList = Field(default_factory=list)
    method: Literal["3CosAdd", "3CosMul"] = "3CosAdd"


class DoesntMatchRequest(InputBody):
    """Request body of /doesnt_match.

    - `inputs`: at least two texts, of which the response names the one that does not match the
      others.
    """

    model_config = examples({"inputs": ["breakfast", "cereal", "dinner", "lunch"]})

    inputs: Annotated[TextList, Field(min_length=2)]


@forbid_extra
class Neighbor(TypedDict):
    """A neighbour of an input.

    - `index`: index of the candidate, or the word's row in the table.
    - `text`: the candidate, or the word.
    - `score`: similarity by `metric`: higher is closer, so that distances are negative.
    """

    index: NonNegativeInt
    text: str
    score: float


@forbid_extra
class NeighborsResponse(TypedDict):
    """Response of /neighbors.

    - `neighbors`: neighbours of each input, nearest first.
    - `metric`: how vectors were compared.
    """

    metric: str
    neighbors: list[list[Neighbor]]


@forbid_extra
class AnalogyResponse(TypedDict):
    """Response of /analogy.

    - `neighbors`: words, best first.
    - `method`: the method that the request chose.
    """

    method: str
    neighbors: list[Neighbor]


@forbid_extra
class DoesntMatchResponse(TypedDict):
    """Response of /doesnt_match.

    - `index`: position of the text that does not match, from 0.
    - `scores`: each text's cosine with the mean of all.
    - `text`: the text that does not match.
    """

    index: NonNegativeInt
    text: str
    scores: list[float]
