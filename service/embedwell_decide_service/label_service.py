"""Scores of candidate labels by a model that reads the labels and the text together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from embedwell.compute.request_limits import check_input_count
from embedwell.compute.served_model import ServedModel
from embedwell.errors import BadRequest, TooLarge
from embedwell.http.request_context import RequestContext
from embedwell_decide.label_options import LabelOptions, labels_text, without_markers
from embedwell_models.outputs.names import LABELS
from embedwell_models.read.inputs import InputOptions, InputRow
from embedwell_models.vectors import Floats

_BYTES_PER_CHARACTER = 4
_MOST_CHARACTERS = 1 << 26
"""Of all texts with the labels: many more than the tokens of a request have."""


@dataclass(frozen=True)
class LabelService:
    """Compares texts with labels by one model."""

    model: ServedModel

    async def label_logits(
        self,
        context: RequestContext,
        texts: Sequence[str],
        labels: Sequence[str],
        options: InputOptions,
    ) -> Floats:
        """Return the logit of each label for each text: (texts, labels).

        options: the instruction describes the task. Raises BadRequest for labels that do not fit,
        and TooLarge for too many texts.
        """
        check_input_count(len(texts), self.model.settings.max_texts)
        before = labels_text([*map(without_markers, labels)], options.instruction or "")
        size = len(texts) * len(before) + sum(map(len, texts))
        _check_size(size, len(texts))
        context.memory.grow(_BYTES_PER_CHARACTER * size)
        context.memory.grow_by_numbers(len(texts) * len(labels))
        joined = [self._options.joined(before, without_markers(text)) for text in texts]
        length = self.model.reader.limited_length(options.max_pair, "truncate_prompt_tokens")
        own = replace(options.with_max_length(length), instruction=None, max_pair=None)
        rows = await self.model.reader.read(context, joined, own)
        self._check_labels(rows, len(labels))
        outputs = await self.model.pipeline.compute_outputs(context, rows, [LABELS])
        return np.array([each.multi[:, 0] for each in outputs if each.multi is not None])

    @cached_property
    def _options(self) -> LabelOptions:
        return LabelOptions.read(self.model.description.encoder)

    def _check_labels(self, rows: Sequence[InputRow], labels: int) -> None:
        for index, row in enumerate(rows):
            if np.count_nonzero(row.ids == self._options.label_id) < labels:
                raise BadRequest(
                    f"the labels do not fit into the tokens that the model reads with input "
                    f"{index} ({self.model.reader.max_length}); give fewer, or a shorter text",
                    param="parameters",
                    index=index,
                )


def _check_size(characters: int, texts: int) -> None:
    if characters > _MOST_CHARACTERS:
        raise TooLarge(
            f"{texts} texts, each with the labels, have {characters} characters, but the limit is "
            f"{_MOST_CHARACTERS}; send fewer texts or labels",
            code="too_many_texts",
        )
