"""Embed the texts of a Ray Dataset."""

from typing import Any

import numpy as np
import pyarrow as pa

from embedwell_bulk import BulkError
from embedwell_bulk.columns import EMBEDDING, text_problems
from embedwell_bulk.local_model import load_local_model
from embedwell_bulk.ray.actor_settings import actor_defaults, read_settings
from embedwell_bulk.text_encoder import embed_window

ERROR = f"{EMBEDDING}_error"
"""Column of the reason why a row has no vector; null if it has one."""


class EmbedTexts:
    """Loads a model and embeds: a class for Dataset.map_batches with batch_format="pyarrow".

    Threads are the processors that Ray has given to the actor, unless settings say otherwise.
    Raises BulkError.

    column: column of the texts.
    prompt: None for the model's default prompt.
    settings: settings of the model, such as model and dtype.
    """

    def __init__(self, column: str = "text", prompt: str | None = None, **settings: Any) -> None:
        values = {**actor_defaults(), **settings}
        self._column = column
        self._model = load_local_model(read_settings(values), prompt)

    def __call__(self, table: pa.Table) -> pa.Table:
        """Add the columns `embedding` (a list of dim float32) and `embedding_error` to n rows."""
        texts = self._texts(table)
        reasons = text_problems(texts, self._column).to_pylist()
        rows = [row for row, reason in enumerate(reasons) if reason is None]
        encoded = embed_window(
            self._model, texts.take(pa.array(rows, pa.int64())).to_pylist(), lambda _: None
        )
        vectors = np.zeros((len(table), self._model.dim), dtype=np.float32)
        vectors[rows] = encoded.dense
        for index, reason in encoded.rejected.items():
            reasons[rows[index]] = reason
        embeddings = pa.FixedSizeListArray.from_arrays(
            pa.array(vectors.ravel()),
            self._model.dim,
            mask=pa.array([reason is not None for reason in reasons], pa.bool_()),
        )
        return table.append_column(EMBEDDING, embeddings).append_column(
            ERROR, pa.array(reasons, pa.string())
        )

    def _texts(self, table: pa.Table) -> pa.StringArray:
        if not isinstance(table, pa.Table):
            raise BulkError('map_batches needs batch_format="pyarrow" with this class')
        if self._column not in table.column_names:
            names = ", ".join(table.column_names)
            raise BulkError(f"the dataset has no column {self._column!r}; it has: {names}")
        for name in (EMBEDDING, ERROR):
            if name in table.column_names:
                raise BulkError(
                    f"the dataset has a column {name!r}, whose name the result needs; rename it"
                )
        texts = table[self._column].combine_chunks()
        if pa.types.is_null(texts.type):
            return texts.cast(pa.string())
        if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
            raise BulkError(
                f"the column {self._column!r} has the type {texts.type}, not string; choose "
                "another column"
            )
        return texts
