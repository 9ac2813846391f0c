"""The routes of tasks and outputs, which errors name and POST / calls."""

from collections.abc import Collection

from embedwell_models.output_names import DECISION, DENSE, LABELS, MULTI, SPARSE, SPARSE_QUERY

PATHS = {
    "classify": "/predict",
    "rerank": "/rerank",
    DENSE: "/embed",
    MULTI: "/embed",
    SPARSE: "/embed_sparse",
    DECISION: "/v1/decisions",
    LABELS: "/zero-shot-classification",
}
"""Path of each task or output of a model."""

_TASKS = {
    "embed": f"{PATHS[DENSE]}, or to /similarity to compare texts",
    **{task: PATHS[task] for task in ("classify", "rerank")},
}
_OUTPUTS = {
    DENSE: f"POST {PATHS[DENSE]}",
    MULTI: f"POST {PATHS[MULTI]}, a vector for each token",
    SPARSE: f"POST {PATHS[SPARSE]}",
    SPARSE_QUERY: "of queries",
    DECISION: f"POST {PATHS[DECISION]}",
    LABELS: f"POST {PATHS[LABELS]}",
}


def advice(offered: Collection[str]) -> str:
    """Return the end of a message: the routes of a task, or of outputs; "" for nothing."""
    tasks = [_TASKS[name] for name in offered if name in _TASKS]
    if tasks:
        return f"; send the request to {tasks[0]}"
    outputs = " and ".join(f"{name} ({_OUTPUTS[name]})" for name in offered)
    return outputs and f"; it has {outputs}"
