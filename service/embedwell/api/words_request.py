"""Request bodies of /neighbors, /analogy and /doesnt_match."""

from typing import Annotated, Literal

from pydantic import Field

from embedwell.api.body import FAIL_FAST, Texts, examples
from embedwell.api.options_body import OPTION_FIELDS, InputBody
from embedwell.errors import BadRequest
from embedwell.inputs.options import InputOptions

MAX_NEIGHBORS = 1000
"""The most neighbours of one list."""

_List = Annotated[list[str], FAIL_FAST]
_Candidates = Annotated[list[str], FAIL_FAST, Field(min_length=1)]
_Count = Annotated[int, Field(ge=1, le=MAX_NEIGHBORS)]


class SearchBody(InputBody):
    """candidates: texts to look among; without them, the words of a model that is a table.

    k: number of neighbours. The fields about prompts and long texts go with candidates.
    """

    candidates: _Candidates | None = None
    k: _Count = 10

    def search_options(self) -> InputOptions:
        """Build the tokenization options; raises BadRequest for those that need candidates."""
        if self.candidates is not None:
            return self.input_options()
        if fields := sorted(self.model_fields_set & OPTION_FIELDS):
            raise BadRequest(f"{fields[0]} goes with candidates", param=fields[0])
        return InputOptions(prompt="")


class NeighborsRequest(SearchBody):
    """inputs: a text or texts; the neighbours of each are returned, without its own words."""

    model_config = examples(
        {"inputs": ["wheat", "iron"], "candidates": ["a cereal", "a metal", "a colour"], "k": 1},
        {"inputs": "wheat", "candidates": ["rust of wheat", "iron oxide"], "metric": "dot"},
    )

    inputs: Texts
    metric: Literal["cosine", "dot", "euclidean"] = "cosine"


class AnalogyRequest(SearchBody):
    """positive, negative: king and woman, and man, to find queen.

    method: 3CosAdd, the cosine with the sum of unit vectors; 3CosMul, the product of the cosines.
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
    """inputs: at least two texts, of which one is to be told from the others."""

    model_config = examples({"inputs": ["breakfast", "cereal", "dinner", "lunch"]})

    inputs: Annotated[_List, Field(min_length=2)]
