"""POST /neighbors, /analogy and /doesnt_match: neighbours and analogies of words or texts."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter

from embedwell.api.comparison_input import TextsByPath, texts_by_path
from embedwell.api.model_choice import ModelChoice
from embedwell.api.openapi_responses import route_responses
from embedwell.api.router import Context, api_router
from embedwell.api.schemas.words import AnalogyResponse, DoesntMatchResponse, NeighborsResponse
from embedwell.api.words_request import (
    AnalogyRequest,
    DoesntMatchRequest,
    NeighborsRequest,
    SearchBody,
)
from embedwell.errors import BadRequest, located
from embedwell.inference.candidates import Candidates
from embedwell.inference.pipeline import Pipeline
from embedwell.request.limits import check_input_count, check_response_numbers
from embedwell.request.request_context import RequestContext
from embedwell.request.run_in_thread import FEW_OPERATIONS, run_in_thread
from embedwell_models import neighbors
from embedwell_models.neighbors import Neighbors, Question
from embedwell_models.vectors import Floats

_MAX_QUESTIONS = (
    256  # per request without candidates; every few questions read the whole vocabulary
)
_ANALOGIES = {"3CosAdd": neighbors.add_analogy, "3CosMul": neighbors.multiply_analogy}


@dataclass(frozen=True)
class Search:
    """A search among candidates for the neighbours of Q texts.

    vectors: the vectors of the texts, (Q, D).
    own_rows: for each text, the candidates that it contains itself.
    """

    candidates: Candidates
    vectors: Floats
    own_rows: Sequence[set[int]]


@dataclass(frozen=True)
class WordService:
    """Finds neighbours and analogies of words of one model, or of texts that it embeds.

    words: vocabulary of a model that is a word table; None for other models.
    num_vectors: ids from this one on have no vector.
    max_values: maximum count of numbers in a response.
    """

    pipeline: Pipeline
    words: Candidates | None
    num_vectors: int
    max_values: int

    async def neighbors(self, context: RequestContext, body: NeighborsRequest) -> Any:
        """Respond to /neighbors."""
        texts = texts_by_path(body.inputs, "inputs")
        numbers = 2 * len(texts) * body.k  # an index and a score each
        check_response_numbers(numbers, self.max_values)
        search = await self._prepare(context, body, texts)
        question = neighbors.by_metric(body.metric, search.vectors, search.own_rows)
        lists = await self._nearest(search, question, body.k)
        return {"metric": body.metric, "neighbors": [_as_json(search, each) for each in lists]}

    async def analogy(self, context: RequestContext, body: AnalogyRequest) -> Any:
        """Respond to /analogy."""
        positive = texts_by_path(body.positive, "positive")
        negative = texts_by_path(body.negative, "negative")
        search = await self._prepare(context, body, {**positive, **negative})
        first, second = search.vectors[: len(positive)], search.vectors[len(positive) :]
        question = _ANALOGIES[body.method](first, second, set().union(*search.own_rows))
        (nearest,) = await self._nearest(search, question, body.k)
        return {"method": body.method, "neighbors": _as_json(search, nearest)}

    async def doesnt_match(self, context: RequestContext, body: DoesntMatchRequest) -> Any:
        """Respond to /doesnt_match."""
        _, vectors = await self.pipeline.embed(context, body.inputs, body.input_options())
        scores = neighbors.doesnt_match(vectors)
        index = int(scores.argmin())
        return {"index": index, "text": body.inputs[index], "scores": scores.tolist()}

    async def _nearest(self, search: Search, question: Question, k: int) -> list[Neighbors]:
        small = search.vectors.size * len(search.candidates.table) <= FEW_OPERATIONS
        return await run_in_thread(partial(search.candidates.nearest, question, k), small)

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
        check_response_numbers(len(texts) * len(candidates), self.max_values)
        context.memory.grow_by_numbers(len(texts) * len(candidates))
        _, vectors = await self.pipeline.embed(
            context, [*texts, *candidates], body.search_options()
        )
        questions, others = np.split(vectors, [len(texts)])
        own_rows = [places[text] for text in texts]
        return Search(Candidates.of_texts(candidates, others), questions, own_rows)

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
        context.memory.grow_by_numbers(len(texts) * neighbors.BLOCK)
        rows = await self.pipeline.reader.read(context, texts, body.search_options())
        states = await self.pipeline.hidden(context, rows, "token")
        vectors = []
        for index, (row, vectors_of_ids) in enumerate(zip(rows, states, strict=True)):
            has_vector = np.asarray(row.ids) < self.num_vectors
            if not has_vector.any():
                raise BadRequest(
                    f"input {index} has no word of the model's vocabulary",
                    code="unknown_token",
                    index=index,
                )
            vectors.append(vectors_of_ids[has_vector].mean(axis=0))
        own_rows = [{*np.asarray(row.ids).tolist()} for row in rows]
        return Search(self.words, np.stack(vectors), own_rows)


def router(models: ModelChoice[WordService]) -> APIRouter:
    """Create the routes of this module."""
    routes = api_router("words")
    responses = route_responses()

    @routes.post(
        "/neighbors",
        summary="Find the nearest words or texts",
        response_model=NeighborsResponse,
        responses=responses,
    )
    async def nearest(context: Context, body: NeighborsRequest) -> Any:
        return await models.choose(body.model, body.task).neighbors(context, body)

    @routes.post(
        "/analogy", summary="Analogies", response_model=AnalogyResponse, responses=responses
    )
    async def analogy(context: Context, body: AnalogyRequest) -> Any:
        return await models.choose(body.model, body.task).analogy(context, body)

    @routes.post(
        "/doesnt_match",
        summary="Find the text that does not match the others",
        response_model=DoesntMatchResponse,
        responses=responses,
    )
    async def odd_one_out(context: Context, body: DoesntMatchRequest) -> Any:
        return await models.choose(body.model, body.task).doesnt_match(context, body)

    return routes


def _as_json(search: Search, nearest: Neighbors) -> list[dict[str, Any]]:
    text = search.candidates.text
    return [{"index": index, "text": text(index), "score": score} for index, score in nearest]
