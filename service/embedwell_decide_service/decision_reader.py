"""Read questions about texts to rows, in steps: long texts and many questions take a while."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from embedwell.compute.request_limits import RequestCosts
from embedwell.compute.request_reader import RequestReader
from embedwell.errors import BadRequest
from embedwell_decide.questions import Question
from embedwell_decide.rows import Ids, RowBuilder
from embedwell_models.errors import UnsplittableTextError
from embedwell_models.read.inputs import InputOptions, InputRow
from embedwell_models.tokenizer.steps import Steps

_CHARACTER_BYTES = 128
"""Memory of a character's part of a word and of its token while a request is read."""


@dataclass(frozen=True)
class AskedQuestion:
    """A question with the field of the request that has it, for errors."""

    question: Question
    field: str


@dataclass(frozen=True)
class DecisionReader:
    """Reads questions by a model's builder of rows, and a request's limits and counts."""

    reader: RequestReader
    builder: RowBuilder

    async def read(
        self,
        costs: RequestCosts,
        states: Sequence[str],
        asked: Sequence[AskedQuestion],
        options: InputOptions,
    ) -> list[InputRow]:
        """Return the row of each question about each text.

        Raises BadRequest for options that do not fit, TooLarge, Overloaded or TimedOut.
        """
        of_states, of_questions = [*map(len, states)], [_size(each.question) for each in asked]
        characters = sum(of_states) + sum(of_questions)
        costs.memory.grow(_CHARACTER_BYTES * characters)
        in_rows = self._most_tokens(of_states) * len(asked)
        in_rows += self._most_tokens(of_questions) * len(states)
        steps, size = self._read(costs, states, asked, options), characters + in_rows
        return await self.reader.run_steps(costs, steps, size, size)

    def _most_tokens(self, sizes: Iterable[int]) -> int:
        """Return about how many tokens of texts the rows have at most. sizes: in characters."""
        return sum(min(size, self.builder.max_length) for size in sizes)

    def _read(
        self,
        costs: RequestCosts,
        states: Sequence[str],
        asked: Sequence[AskedQuestion],
        options: InputOptions,
    ) -> Steps[list[InputRow]]:
        keep_end = options.side == "left"
        texts, parts = list[list[str]](), list[list[str]]()
        for state in states:
            texts.append(self.builder.state_texts(state, keep_end=keep_end))
            yield
        for each in asked:
            parts.append(self.builder.question_texts(each.question))
            yield
        ids = yield from self._ids([*texts, *parts])
        questions = [[ids[part] for part in own] for own in parts]
        rows = list[InputRow]()
        for index, own in enumerate(texts):
            state_ids = [ids[part] for part in own]
            for each, question_ids in zip(asked, questions, strict=True):
                row = self._row(index, each, question_ids, state_ids, options)
                self.reader.count(costs, [row])
                rows.append(row)
                yield
        return rows

    def _ids(self, texts: Iterable[Sequence[str]]) -> Steps[dict[str, list[int]]]:
        """Return the token ids of each different text."""
        different = dict[str, None]()
        for each in texts:
            different.update(dict.fromkeys(each))
            yield
        try:
            ids = yield from self.reader.ids_in_steps([*different])
        except UnsplittableTextError as error:
            raise UnsplittableTextError(error.limit) from None  # its index was that of a word
        return dict(zip(different, ids, strict=True))

    def _row(
        self,
        index: int,
        asked: AskedQuestion,
        question: Sequence[Ids],
        state: Sequence[Ids],
        options: InputOptions,
    ) -> InputRow:
        length = options.max_length or self.builder.max_length
        keep_end = options.side == "left"
        row = self.builder.row(question, state, keep_end=keep_end, max_length=length)
        if row is None:
            raise BadRequest(
                f"{asked.field} has {len(asked.question.options)} options, which do not fit into "
                f"the {length} tokens that the model reads; give fewer",
                param=asked.field,
            )
        return self.reader.checked_row(index, row.ids, row.dropped, options)


def _size(question: Question) -> int:
    options = sum(len(each.label) + len(each.about or "") for each in question.options)
    return len(question.name) + len(question.instructions) + options
