"""POST /neighbors, /analogy and /doesnt_match: neighbours and analogies of words or texts."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from fastapi import APIRouter

from embedwell.compute.request_limits import check_input_count, check_response_numbers
from embedwell.compute.served_model import ServedModel
from embedwell.compute.work_queue import FEW_OPERATIONS
from embedwell.errors import BadRequest, located
from embedwell.http.request_context import RequestContext
from embedwell.routes.common.body import TextsByPath, texts_by_path
from embedwell.routes.common.router import RequestDep, api_router
from embedwell.routes.common.server_state import ModelRegistry
from embedwell_classic.words import neighbors
from embedwell_classic.words.neighbors import Neighbors, NeighborTable, Question
from embedwell_classic.words.table import WordTable
from embedwell_classic_service.word_bodies import (
    AnalogyRequest,
    AnalogyResponse,
    DoesntMatchRequest,
    DoesntMatchResponse,
    Neighbor,
    NeighborsRequest,
    NeighborsResponse,
    SearchBody,
)
from embedwell_models.checkpoint.tables import BLOCK
from embedwell_models.outputs.names import DENSE
from embedwell_models.read.inputs import InputOptions
from embedwell_models.vectors import Floats

# Per request without candidates; every few questions read the whole vocabulary.
_MAX_QUESTIONS = 256
_READING = 16  # reading a row takes as long as comparing it with so many vectors
_SCORING = 100  # scoring a neighbour again takes as long as so many rows of the search
_ANALOGIES = {"3CosAdd": neighbors.add_analogy, "3CosMul": neighbors.multiply_analogy}


@dataclass(frozen=True)
class Search:
    """A search among candidates for the neighbours of Q texts.

    vectors: the vectors of the texts, (Q, D).
    own_rows: for each text, the candidates that it contains itself.
    """

    candidates: NeighborTable
    vectors: Floats
    own_rows: Sequence[set[int]]


@dataclass
class WordService:
    """Finds neighbours and analogies of words of one model, or of texts that it embeds."""

    model: ServedModel

    @cached_property
    def words(self) -> NeighborTable | None:
        """The vocabulary of a model that is a table; None for other models."""
        table = WordTable.of(self.model.description)
        return None if table is None else NeighborTable(table, self.model.token_name)

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
        vectors = await self._embed(context, body.inputs, body.input_options())
        scores = neighbors.doesnt_match(vectors)
        index = int(scores.argmin())
        return {"index": index, "text": body.inputs[index], "scores": scores.tolist()}

    async def _embed(
        self, context: RequestContext, texts: Sequence[str], options: InputOptions
    ) -> Floats:
        self.model.pipeline.check_outputs([DENSE])
        rows = await self.model.reader.read(context, texts, options)
        return await self.model.pipeline.dense(context, rows)

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
        vectors = await self._embed(context, [*texts, *candidates], body.search_options())
        questions, others = np.split(vectors, [len(texts)])
        own_rows = [places[text] for text in texts]
        return Search(NeighborTable(others, candidates.__getitem__), questions, own_rows)

    async def _among_words(
        self, context: RequestContext, body: SearchBody, texts: list[str]
    ) -> Search:
        if self.words is None:
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
        return Search(self.words, np.stack(vectors), own_rows)


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
