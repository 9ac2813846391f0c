"""Convert logits to scores: activations, labels and ranks."""

from collections.abc import Callable, Collection, Mapping
from typing import Literal

import numpy as np

from embedwell_models.model_files.classifier import Activation, ClassifierOptions
from embedwell_models.outputs.names import DENSE, MULTI
from embedwell_models.vectors import Floats

ScoreFunction = Literal["sigmoid", "softmax", "none"]
"""Function that converts logits to the scores of a response; `none` returns the logits."""

RerankScore = Literal["sigmoid", "maxsim", "cosine"]
"""Score of a document for a query: of a reranker's logit, or of vectors."""


def rerank_score(
    outputs: Collection[str], classifier: ClassifierOptions | None
) -> RerankScore | None:
    """Return how a model scores documents; None for one that cannot.

    outputs: outputs of a text by their names in embedwell_models.outputs.names.
    classifier: None for an embedder.
    """
    if classifier is not None:
        if classifier.listwise is not None:
            return "cosine"
        return "sigmoid" if classifier.reranks else None
    if MULTI in outputs:
        return "maxsim"
    return "cosine" if DENSE in outputs else None


def sigmoid(logits: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)) for each logit, computed in float64."""
    scores: Floats = (1.0 / (1.0 + np.exp(-logits.astype(np.float64)))).astype(np.float32)
    return scores


def tanh(logits: Floats) -> Floats:
    """Return the hyperbolic tangent of each logit, computed in float64."""
    scores: Floats = np.tanh(logits.astype(np.float64)).astype(np.float32)
    return scores


ACTIVATIONS: Mapping[Activation, Callable[[Floats], Floats]] = {
    "sigmoid": sigmoid,
    "identity": lambda logits: logits,
    "tanh": tanh,
}
"""Functions that a reranker's files name for its logits."""


def softmax(logits: Floats) -> Floats:
    """Return probabilities that sum to one in each row: (B, labels) -> (B, labels)."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    probabilities: Floats = (shifted / shifted.sum(axis=1, keepdims=True)).astype(np.float32)
    return probabilities


def logits_to_scores(
    function: ScoreFunction | None, logits: Floats, classifier: ClassifierOptions
) -> Floats:
    """Return the score of each label: (B, labels).

    function: None for probabilities. If several labels can apply or there is only one, each label
        has a probability of its own; otherwise they sum to one.
    """
    if function is None:
        function = "sigmoid" if classifier.multi_label or classifier.reranks else "softmax"
    functions = {"sigmoid": sigmoid, "softmax": softmax}
    return functions[function](logits) if function in functions else logits


def ranking(scores: Floats, top_n: int | None) -> list[int]:
    """Return the indices of the best scores, best first; equal scores keep their order."""
    best: list[int] = np.argsort(-scores, kind="stable")[:top_n].tolist()
    return best
