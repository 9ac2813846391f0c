"""The builder of rows of each family of decision models."""

from collections.abc import Callable

from embedwell_decide import gliner_options
from embedwell_decide.gliner_rows import GlinerRows
from embedwell_decide.laya_rows import LayaRows
from embedwell_decide.options import DecisionOptions
from embedwell_decide.rows import RowBuilder
from embedwell_models.model_description import ModelDescription


def row_builder(
    description: ModelDescription,
    max_length: int,
    special_id: Callable[[str], int | None],
    token_name: Callable[[int], str],
) -> RowBuilder:
    """Return the builder of a model that decides; raises ModelError for wrong files.

    max_length: the most tokens of a row. special_id, token_name: see LayaRows.
    """
    if description.spec.config.family == gliner_options.MODEL_TYPE:
        return GlinerRows(max_length)
    return LayaRows.of(DecisionOptions.read(description.encoder), special_id, token_name)
