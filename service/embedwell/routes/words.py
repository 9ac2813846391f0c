"""POST /neighbors, /analogy and /doesnt_match: neighbours and analogies of words or texts."""

import pkgutil
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, Protocol

from fastapi import APIRouter
from pydantic import Field, NonNegativeInt
from typing_extensions import TypedDict

from embedwell.errors import BadRequest
from embedwell.http.request_context import RequestContext
from embedwell.inference.served_model import ServedModel
from embedwell.routes.common.body import TextList, Texts, examples
from embedwell.routes.common.common_fields import forbid_extra
from embedwell.routes.common.model_registry import ModelRegistry
from embedwell.routes.common.options import OPTION_FIELDS, InputBody
from embedwell.routes.common.router import RequestDep, api_router
from embedwell_models.output_names import DENSE
from embedwell_models.read.inputs import InputOptions

MAX_NEIGHBORS = 1000
"""Maximum number of neighbours in one list."""
_SERVICE = "embedwell_classic_service.word_search:WordService"
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


class WordService(Protocol):
    """Searches of one model."""

    async def neighbors(self, context: RequestContext, body: NeighborsRequest) -> NeighborsResponse:
        """Respond to /neighbors."""

    async def analogy(self, context: RequestContext, body: AnalogyRequest) -> AnalogyResponse:
        """Respond to /analogy."""

    async def doesnt_match(
        self, context: RequestContext, body: DoesntMatchRequest
    ) -> DoesntMatchResponse:
        """Respond to /doesnt_match."""


@dataclass
class _Words:
    """The searches of one model, whose package is imported for the first of them."""

    model: ServedModel

    @cached_property
    def service(self) -> WordService:
        service: WordService = pkgutil.resolve_name(_SERVICE)(self.model)
        return service


def router(registry: ModelRegistry) -> APIRouter:
    """Create the routes /neighbors, /analogy and /doesnt_match."""
    models = registry.choice(_Words, DENSE)
    routes = api_router("compare", always_computes=False)

    @routes.post("/neighbors", summary="Find the nearest words or texts")
    async def nearest(context: RequestDep, body: NeighborsRequest) -> NeighborsResponse:
        return await models.choose(body.model, body.task).service.neighbors(context, body)

    @routes.post("/analogy", summary="Solve an analogy")
    async def analogy(context: RequestDep, body: AnalogyRequest) -> AnalogyResponse:
        return await models.choose(body.model, body.task).service.analogy(context, body)

    @routes.post("/doesnt_match", summary="Find the text that does not match the others")
    async def odd_one_out(context: RequestDep, body: DoesntMatchRequest) -> DoesntMatchResponse:
        return await models.choose(body.model, body.task).service.doesnt_match(context, body)

    return routes
