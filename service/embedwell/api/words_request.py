"""Request bodies of /neighbors, /analogy and /doesnt_match."""

from typing import Annotated, Literal

from pydantic import Field

from embedwell.api.body import FAIL_FAST, Texts, examples
from embedwell.api.options_body import OPTION_FIELDS, InputBody
from embedwell.errors import BadRequest
from embedwell.inputs.options import InputOptions

MAX_NEIGHBORS = 1000
"""Maximum number of neighbours in one list."""

_List = Annotated[list[str], FAIL_FAST]
_Candidates = Annotated[list[str], FAIL_FAST, Field(min_length=1)]
_Count = Annotated[int, Field(ge=1, le=MAX_NEIGHBORS)]


class SearchBody(InputBody):
    """Fields of a search for neighbours.

    - `candidates`: texts to search. Default: the words of a model that is a word table.
    - `k`: number of neighbours.

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
    """

    model_config = examples(
        {"inputs": ["wheat", "iron"], "candidates": ["a cereal", "a metal", "a colour"], "k": 1},
        {"inputs": "wheat", "candidates": ["rust of wheat", "iron oxide"], "metric": "dot"},
    )

    inputs: Texts
    metric: Literal["cosine", "dot", "euclidean"] = "cosine"


class AnalogyRequest(SearchBody):
    """Request body of /analogy.

    - `positive`, `negative`: for example king and woman, and man, to find queen.
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

    positive: Annotated[_List, Field(min_length=1)]
    negative: _List = Field(default_factory=list)
    method: Literal["3CosAdd", "3CosMul"] = "3CosAdd"


class DoesntMatchRequest(InputBody):
    """Request body of /doesnt_match.

    - `inputs`: at least two texts. The response names the one that does not match the others.
    """

    model_config = examples({"inputs": ["breakfast", "cereal", "dinner", "lunch"]})

    inputs: Annotated[_List, Field(min_length=2)]
