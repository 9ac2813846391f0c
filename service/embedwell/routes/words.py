"""POST /neighbors, /analogy and /doesnt_match: neighbours and analogies of words or texts."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from fastapi import APIRouter
from pydantic import Field, NonNegativeInt
from typing_extensions import TypedDict

from embedwell.errors import BadRequest, located
from embedwell.http.field_descriptions import forbid_extra
from embedwell.http.request_context import RequestContext
from embedwell.inference.served_model import ServedModel
from embedwell.limits.request_limits import check_input_count, check_response_numbers
from embedwell.limits.work_queue import FEW_OPERATIONS
from embedwell.routes.common.body import TextList, Texts, TextsByPath, examples, texts_by_path
from embedwell.routes.common.model_registry import ModelRegistry
from embedwell.routes.common.options import OPTION_FIELDS, InputBody
from embedwell.routes.common.router import RequestDep, api_router
from embedwell_models.output_names import DENSE
from embedwell_models.read.inputs import InputOptions
from embedwell_models.tables import neighbors
from embedwell_models.tables.neighbors import Neighbors, NeighborTable, Question
from embedwell_models.tables.table import BLOCK
from embedwell_models.vectors import Floats

MAX_NEIGHBORS = 1000
"""Maximum number of neighbours in one list."""
# Per request without candidates; every few questions read the whole vocabulary.
_MAX_QUESTIONS = 256
_READING = 16  # reading a row takes as long as comparing it with so many vectors
_SCORING = 100  # scoring a neighbour again takes as long as so many rows of the search
_ANALOGIES = {"3CosAdd": neighbors.add_analogy, "3CosMul": neighbors.multiply_analogy}
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


@dataclass(frozen=True)
class Search:
    """A search among candidates for the neighbours of Q texts.

    vectors: the vectors of the texts, (Q, D).
    own_rows: for each text, the candidates that it contains itself.
    """

    candidates: NeighborTable
    vectors: Floats
    own_rows: Sequence[set[int]]


@dataclass(frozen=True)
class WordService:
    """Finds neighbours and analogies of words of one model, or of texts that it embeds."""

    model: ServedModel

    async def neighbors(self, context: RequestContext, body: NeighborsRequest) -> NeighborsResponse:
        """Respond to /neighbors."""
        texts = texts_by_path(body.inputs, "inputs")
        numbers = 2 * len(texts) * body.k  # an index and a score each
        check_response_numbers(numbers, self.model.settings.max_values)
        search = await self._prepare(context, body, texts)
        question = neighbors.by_metric(body.metric, search.vectors, search.own_rows)
        lists = await self._nearest(search, question, body.k)
        return {"metric": body.metric, "neighbors": [_as_json(search, each) for each in lists]}

    async def analogy(self, context: RequestContext, body: AnalogyRequest) -> AnalogyResponse:
        """Respond to /analogy."""
        positive = texts_by_path(body.positive, "positive")
        negative = texts_by_path(body.negative, "negative")
        search = await self._prepare(context, body, {**positive, **negative})
        first, second = search.vectors[: len(positive)], search.vectors[len(positive) :]
        question = _ANALOGIES[body.method](first, second, set().union(*search.own_rows))
        (nearest,) = await self._nearest(search, question, body.k)
        return {"method": body.method, "neighbors": _as_json(search, nearest)}

    async def doesnt_match(
        self, context: RequestContext, body: DoesntMatchRequest
    ) -> DoesntMatchResponse:
        """Respond to /doesnt_match."""
        _, vectors = await self.model.pipeline.embed(context, body.inputs, body.input_options())
        scores = neighbors.doesnt_match(vectors)
        index = int(scores.argmin())
        return {"index": index, "text": body.inputs[index], "scores": scores.tolist()}

    async def _nearest(self, search: Search, question: Question, k: int) -> list[Neighbors]:
        rows, dim = len(search.candidates.table), search.vectors.shape[1]
        steps = search.candidates.nearest(question, k)
        operations = search.vectors.size * rows
        if operations > FEW_OPERATIONS:
            scoring = len(question.excluded) * min(k, rows) * dim
            operations += _READING * rows * dim + _SCORING * scoring
        return await self.model.comparisons.run(steps, operations)

    async def _prepare(
        self, context: RequestContext, body: SearchBody, texts: TextsByPath
    ) -> Search:
        among = self._among_words if body.candidates is None else self._among_texts
        with located([*texts, *texts_by_path(body.candidates or [], "candidates")]):
            return await among(context, body, [str(text) for text in texts.values()])

    async def _among_texts(
        self, context: RequestContext, body: SearchBody, texts: list[str]
    ) -> Search:
        candidates, places = body.candidates or [], defaultdict[str, set[int]](set)
        for index, candidate in enumerate(candidates):
            places[candidate].add(index)
        check_response_numbers(len(texts) * len(candidates), self.model.settings.max_values)
        context.memory.grow_by_numbers(len(texts) * len(candidates))
        _, vectors = await self.model.pipeline.embed(
            context, [*texts, *candidates], body.search_options()
        )
        questions, others = np.split(vectors, [len(texts)])
        own_rows = [places[text] for text in texts]
        return Search(NeighborTable(others, candidates.__getitem__), questions, own_rows)

    async def _among_words(
        self, context: RequestContext, body: SearchBody, texts: list[str]
    ) -> Search:
        if self.model.words is None:
            raise BadRequest(
                "this model has no table of word vectors; give candidates",
                code="not_offered",
                param="candidates",
            )
        check_input_count(len(texts), _MAX_QUESTIONS)
        context.memory.grow_by_numbers(len(texts) * BLOCK)
        rows = await self.model.reader.read(context, texts, body.search_options())
        states = await self.model.pipeline.hidden(context, rows, "token")
        vectors = []
        for index, (row, vectors_of_ids) in enumerate(zip(rows, states, strict=True)):
            has_vector = np.asarray(row.ids) < self.model.config.num_vectors
            if not has_vector.any():
                raise BadRequest(
                    f"input {index} has no word of the model's vocabulary",
                    code="unknown_token",
                    index=index,
                )
            vectors.append(vectors_of_ids[has_vector].mean(axis=0))
        own_rows = [{*np.asarray(row.ids).tolist()} for row in rows]
        return Search(self.model.words, np.stack(vectors), own_rows)


def router(registry: ModelRegistry) -> APIRouter:
    """Create the routes /neighbors, /analogy and /doesnt_match."""
    models = registry.choice(WordService, DENSE)
    routes = api_router("compare", always_computes=False)

    @routes.post("/neighbors", summary="Find the nearest words or texts")
    async def nearest(context: RequestDep, body: NeighborsRequest) -> NeighborsResponse:
        return await models.choose(body.model, body.task).neighbors(context, body)

    @routes.post("/analogy", summary="Solve an analogy")
    async def analogy(context: RequestDep, body: AnalogyRequest) -> AnalogyResponse:
        return await models.choose(body.model, body.task).analogy(context, body)

    @routes.post("/doesnt_match", summary="Find the text that does not match the others")
    async def odd_one_out(context: RequestDep, body: DoesntMatchRequest) -> DoesntMatchResponse:
        return await models.choose(body.model, body.task).doesnt_match(context, body)

    return routes


def _as_json(search: Search, nearest: Neighbors) -> list[Neighbor]:
    text = search.candidates.text
    return [{"index": index, "text": text(index), "score": score} for index, score in nearest]
