"""A model in this process as a TextEncoder, loaded as the settings say."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedwell.engine.worker.batch_sizing import choose_batch_limit
from embedwell.engine.worker.load import load
from embedwell.settings.settings import Settings
from embedwell_bulk import BulkError
from embedwell_bulk.text_encoder import Advance, LocalEncoder, TokenVectors
from embedwell_models.embedder import Embedder
from embedwell_models.encoder.token_pooling import pool_tokens
from embedwell_models.errors import (
    EmptyTextError,
    InputError,
    ModelError,
    PromptTooLongError,
    UnsplittableTextError,
)
from embedwell_models.outputs.names import DENSE, LISTWISE, MULTI, SPARSE, SPARSE_QUERY
from embedwell_models.vectors import Floats

_CHUNK = 1024  # texts between two updates of the progress


@dataclass(frozen=True)
class _TextModel(LocalEncoder):
    """A model in this process as a TextEncoder.

    budget: tokens of a forward pass.
    """

    embedder: Embedder
    name: str
    prompt: str | None = None
    budget: int = 2048

    @property
    def dim(self) -> int:
        return self.embedder.dim

    @property
    def description(self) -> Mapping[str, Any]:
        recipe = self.embedder.recipe
        return {
            "model": self.name,
            "fingerprint": self.embedder.fingerprint,
            "precision": self.embedder.dtype,
            "dimension": self.dim,
            "normalized": recipe.normalize,
            "prompt": recipe.default_prompt if self.prompt is None else self.prompt,
        }

    @abstractmethod
    def _vectors(self, texts: Sequence[str]) -> Floats | list[Floats]:
        """Return the vectors of each text."""

    def _fill(
        self, vectors: Floats | list[Floats], texts: Sequence[str], advance: Advance
    ) -> Mapping[int, str]:
        """Fill in the vectors of the texts, and return the rejected texts."""
        rejected: dict[int, str] = {}
        for start in range(0, len(texts), _CHUNK):
            rows = range(start, min(start + _CHUNK, len(texts)))
            rejected |= self._fill_rows(vectors, texts, rows)
            advance(len(rows))
        return rejected

    def _fill_rows(
        self, vectors: Floats | list[Floats], texts: Sequence[str], rows: Sequence[int]
    ) -> Mapping[int, str]:
        rejected: dict[int, str] = {}
        try:
            computed = self._vectors([texts[row] for row in rows])
        except (EmptyTextError, UnsplittableTextError):
            reasons = {row: self._reason(texts[row]) for row in rows}
            rejected = {row: reason for row, reason in reasons.items() if reason}
            rows = [row for row in rows if row not in rejected]
            computed = self._vectors([texts[row] for row in rows]) if rows else []
        for row, vector in zip(rows, computed, strict=True):
            vectors[row] = vector
        return rejected

    def _reason(self, text: str) -> str | None:
        """Return why a text has no vector; None if it has one."""
        try:
            [ids] = self.embedder.tokenize([text], prompt=self.prompt)
        except UnsplittableTextError as error:
            return error.problem
        if len(ids) < self.embedder.config.min_tokens:
            return "the text has no tokens, but the model needs at least one"
        return None


@dataclass(frozen=True)
class LocalModel(_TextModel):
    """A model with a vector for each text."""

    def embed(self, texts: Sequence[str], advance: Advance) -> tuple[Floats, Mapping[int, str]]:
        """Return vectors (B, dim) of texts, and the rejected texts: see Encoded."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        return vectors, self._fill(vectors, texts, advance)

    def _vectors(self, texts: Sequence[str]) -> Floats:
        try:
            return self.embedder.embed(texts, prompt=self.prompt, budget=self.budget)
        except PromptTooLongError as error:
            raise BulkError(str(error)) from None


@dataclass(frozen=True)
class LocalTokenModel(_TextModel):
    """A model with a vector for each token of a text, which reads the texts as documents.

    pool_factor: divisor of the number of vectors.
    """

    pool_factor: int = 1

    @property
    def description(self) -> Mapping[str, Any]:
        prompt = self.embedder.recipe.prompts.get("document", "")
        return {**super().description, "prompt": prompt, **described_tokens(self.pool_factor)}

    def embed(
        self, texts: Sequence[str], advance: Advance
    ) -> tuple[TokenVectors, Mapping[int, str]]:
        """Return the vectors of the tokens of texts, and the rejected texts: see Encoded."""
        each = [np.empty((0, self.dim), dtype=np.float32)] * len(texts)
        rejected = self._fill(each, texts, advance)
        return TokenVectors(each, self.dim), rejected

    def _vectors(self, texts: Sequence[str]) -> list[Floats]:
        vectors = self.embedder.embed_tokens(texts, budget=self.budget)
        return [pooled(each, self.pool_factor) for each in vectors]


def described_tokens(pool_factor: int) -> dict[str, Any]:
    """Describe vectors of tokens, for TextEncoder.description."""
    return {"output": MULTI, **({"pool_factor": pool_factor} if pool_factor > 1 else {})}


def pooled(vectors: Floats, factor: int) -> Floats:
    """Pool the vectors of a text's tokens, see pool_tokens. Raises BulkError."""
    try:
        return pool_tokens(vectors, factor)
    except InputError as error:
        raise BulkError(str(error)) from None


_OTHER_KINDS = {
    SPARSE: "sparse vectors",
    SPARSE_QUERY: "sparse vectors of queries",
    MULTI: "vectors of tokens",
    LISTWISE: "scores of lists",
}


def load_local_model(settings: Settings, prompt: str | None) -> LocalModel:
    """Load a model with one vector for each text; for the arguments see `load_any_model`."""
    model = load_any_model(settings, prompt)
    check_dense(model.embedder)
    return model


def load_text_model(
    settings: Settings, prompt: str | None, pool_factor: int = 1
) -> LocalModel | LocalTokenModel:
    """Load a model with a vector for each text, or for each token; see `load_any_model`.

    pool_factor: divisor of the number of a text's vectors.
    """
    model = load_any_model(settings, prompt)
    if model.embedder.output_names != (MULTI,):
        check_dense(model.embedder)
        refuse_pooling(model.name, pool_factor)
        return model
    if prompt is not None:
        raise BulkError(f"{model.name} reads documents with its own prompt; leave out --prompt")
    return LocalTokenModel(model.embedder, model.name, budget=model.budget, pool_factor=pool_factor)


def refuse_pooling(model: str, pool_factor: int) -> None:
    """Raise BulkError if the vectors of tokens would be pooled, which the model does not have."""
    if pool_factor > 1:
        raise BulkError(f"{model} has one vector for each input; leave out --pool-factor")


def load_any_model(settings: Settings, prompt: str | None) -> LocalModel:
    """Load the model. Raises BulkError.

    prompt: None for the model's default prompt.
    """
    try:
        folder = settings.find_model()
        embedder = load(folder, settings.options)
    except ModelError as error:
        raise BulkError(str(error)) from None
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
