"""Load the model of the settings into this process for a run."""

from embedwell.bulk.errors import BulkError
from embedwell.bulk.local_model import LocalModel
from embedwell.engine.worker.batch_limit import choose_batch_limit
from embedwell.engine.worker.load import load
from embedwell.settings.settings import Settings
from embedwell_models.embedder import Embedder
from embedwell_models.errors import ModelError
from embedwell_models.hub import sources
from embedwell_models.outputs.names import DENSE, MULTI, SPARSE, SPARSE_QUERY

_OTHER_KINDS = {
    SPARSE: "sparse vectors",
    SPARSE_QUERY: "sparse vectors of queries",
    MULTI: "vectors of tokens",
}


def load_local_model(settings: Settings, prompt: str | None) -> LocalModel:
    """Load the model. Raises BulkError.

    prompt: None for the model's default prompt.
    """
    try:
        folder = sources.resolve(settings.model, revision=settings.revision, cache=settings.cache)
        embedder = load(folder, settings)
    except ModelError as error:
        raise BulkError(str(error)) from None
    check_dense(embedder)
    budget = choose_batch_limit(embedder, settings.max_batch_tokens).tokens
    return LocalModel(embedder, settings.name, prompt, budget)


def check_dense(embedder: Embedder) -> None:
    """Raise BulkError for a model without one vector for each text."""
    if DENSE not in embedder.output_names:
        kinds = " and ".join(_OTHER_KINDS[name] for name in embedder.output_names)
        raise BulkError(
            f"the model has no dense vectors of texts, but {kinds or 'scores of labels'}; use "
            "`embedwell serve` for these"
        )
