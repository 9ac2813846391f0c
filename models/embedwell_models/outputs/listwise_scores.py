"""Scores of a listwise reranker, from the vectors of its blocks."""

from collections.abc import Sequence

import numpy as np

from embedwell_models.vectors import Floats, cosine

_MIN_WEIGHT = 1e-12  # of a block whose documents are all opposite to the query


def listwise_scores(blocks: Sequence[Floats]) -> Floats:
    """Score all documents of a list by the cosine with the query, whose vector is a mean: (B,).

    blocks: for each, the vectors of its documents and then that of the query, (documents + 1, D). A
    block with a better best score has more weight in the mean.
    """
    best = [cosine(block[-1:], block[:-1]).max() for block in blocks]
    queries = np.array([block[-1] for block in blocks], dtype=np.float64)
    weights = np.maximum((1 + np.array(best, dtype=np.float64)) / 2, _MIN_WEIGHT)
    query = np.average(queries, axis=0, weights=weights)
    documents = np.concatenate([block[:-1] for block in blocks])
    scores: Floats = cosine(query[None].astype(np.float32), documents)[0]
    return scores
