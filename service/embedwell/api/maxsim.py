"""POST /similarity of a multi-vector model: queries against documents."""

from collections.abc import Sequence
from typing import Any

from embedwell.api.comparison_input import TextsByPath, texts_by_path
from embedwell.api.scores import ranking
from embedwell.api.similarity_request import SimilarityRequest
from embedwell.errors import BadRequest, located
from embedwell.inference.multi_vectors import MultiVectors, TokenVectors
from embedwell.request.limits import check_response_numbers
from embedwell.request.request_context import RequestContext
from embedwell_models.vectors import Floats

MAXSIM = "maxsim"


async def maxsim_similarity(
    multi_vectors: MultiVectors, context: RequestContext, body: SimilarityRequest, max_values: int
) -> Any:
    """Score queries (`a`, or the source sentence) against documents (`b`, or the sentences).

    Raises BadRequest for vectors, for another metric, and for a model without token vectors.

    max_values: maximum count of numbers in the scores.
    """
    multi_vectors.check_offered()
    if "metric" in body.model_fields_set and body.metric != MAXSIM:
        raise BadRequest(f"metric must be {MAXSIM} for this model", param="metric")
    queries, documents, paths = _texts(body)
    _check_scores(len(queries), len(documents), body, max_values)
    context.memory.grow_by_numbers(len(queries) * len(documents))
    with located(paths):
        a, b = await multi_vectors.query_document_vectors(
            context, queries, documents, body.input_options()
        )
    scores = await _scores(multi_vectors, a, b, body.mode)
    if body.inputs is not None and not body.details:
        return scores[0]
    response: dict[str, Any] = {"metric": MAXSIM, **_as_json(scores, body)}
    return {**response, **_details(context, body, a, b)} if body.details else response


def _texts(body: SimilarityRequest) -> tuple[list[str], list[str], list[Any]]:
    if body.inputs is not None:
        body.check_source()
        sentences = body.inputs.sentences
        paths = [("inputs", "sentences", index) for index in range(len(sentences))]
        return [body.inputs.source_sentence], sentences, [("inputs", "source_sentence"), *paths]
    body.check_a_and_b()
    a, b = texts_by_path(body.a, "a"), texts_by_path(body.b, "b")
    for name, texts in (("a", a), ("b", b)):
        if not texts:
            raise BadRequest(f"{name} must be texts: {MAXSIM} compares their tokens", param=name)
    return _only_texts(a), _only_texts(b), [*a, *b]


def _only_texts(items: TextsByPath) -> list[str]:
    texts = [item for item in items.values() if isinstance(item, str)]
    if len(texts) < len(items):
        raise BadRequest("this model embeds texts only; send no images", code="not_offered")
    return texts


def _check_scores(a: int, b: int, body: SimilarityRequest, max_values: int) -> None:
    if body.mode == "pairwise":
        if a != b:
            raise BadRequest(
                f"a has {a} entries and b has {b}; mode pairwise needs equal numbers", param="mode"
            )
        if body.top_k is not None:
            raise BadRequest("top_k needs mode matrix", param="top_k")
    check_response_numbers(a if body.mode == "pairwise" else a * b, max_values)


async def _scores(
    multi_vectors: MultiVectors, a: TokenVectors, b: TokenVectors, mode: str
) -> Floats:
    if mode == "pairwise":
        return await multi_vectors.maxsim_scores([*zip(a.vectors, b.vectors, strict=True)])
    pairs = [(query, document) for query in a.vectors for document in b.vectors]
    return (await multi_vectors.maxsim_scores(pairs)).reshape(len(a.vectors), len(b.vectors))


def _as_json(scores: Floats, body: SimilarityRequest) -> dict[str, Any]:
    if body.inputs is not None:
        return {"scores": scores[0]}
    if body.top_k is None:
        return {"scores": scores}
    return {"top": [_top(row, ranking(row, body.top_k)) for row in scores]}


def _top(row: Floats, indices: Sequence[int]) -> list[dict[str, Any]]:
    return [{"index": index, "score": float(row[index])} for index in indices]


def _details(
    context: RequestContext, body: SimilarityRequest, a: TokenVectors, b: TokenVectors
) -> dict[str, Any]:
    first, second = ([row.as_json() for row in side.rows] for side in (a, b))
    inputs: dict[str, Any] = {"a": first, "b": second}
    if body.inputs is not None:
        inputs = {"source_sentence": first[0], "sentences": second}
    return {"inputs": inputs, **context.usage_and_timing()}
